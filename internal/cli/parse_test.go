package cli

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// textOf returns the text of an error, which must be one of usage; "" for none.
func textOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	if _, ok := errors.AsType[*UsageError](err); !ok {
		t.Errorf("%v is not a UsageError", err)
	}
	return err.Error()
}

func TestParse(t *testing.T) {
	type flags = map[string]bool
	type values = map[string]string
	for _, c := range []struct {
		line, command string
		want          Call
	}{
		{"run", "run", Call{nil, flags{}, values{}}},
		{"demo --for 2s --keep", "demo", Call{nil, flags{"keep": true}, values{"for": "2s"}}},
		{"demo -keep -for=2s=x", "demo", Call{nil, flags{"keep": true}, values{"for": "2s=x"}}},
		{"demo --for --keep", "demo", Call{nil, flags{}, values{"for": "--keep"}}},
		{"demo --for 1s --for 2s", "demo", Call{nil, flags{}, values{"for": "2s"}}},
		{"reconcile full", "reconcile", Call{[]string{"full"}, flags{}, values{}}},
		{"reconcile full a --json b", "reconcile", Call{[]string{"full", "a", "b"}, flags{"json": true}, values{}}},
		{"reconcile --json -- --dry-run -", "reconcile", Call{[]string{"--dry-run", "-"}, flags{"json": true}, values{}}},
		{"tail", "tail", Call{nil, flags{}, values{}}},
		{"tail -", "tail", Call{[]string{"-"}, flags{}, values{}}},
	} {
		if got, err := sample().Parse(strings.Fields(c.line)); err != nil || !reflect.DeepEqual(got, Line{Command: c.command, Call: c.want}) {
			t.Errorf("bridge %s: %+v, %v", c.line, got, err)
		}
	}
	for line, want := range map[string]string{
		"rnu":                 `unknown command "rnu": did you mean bridge run? The commands are run, demo, reconcile, checkpoint, tail, completion; see bridge help`,
		"x":                   `unknown command "x". The commands are run, demo, reconcile, checkpoint, tail, completion; see bridge help`,
		"--json run":          `unknown flag "--json": flags follow a command; see bridge help`,
		"checkpoint":          "bridge checkpoint needs one of: show, set",
		"checkpoint shw":      `unknown command "checkpoint shw": did you mean bridge checkpoint show? There are show, set`,
		"help rnu":            `unknown command "rnu": did you mean bridge run? The commands are run, demo, reconcile, checkpoint, tail, completion; see bridge help`,
		"run x":               "bridge run takes no arguments, not 1: bridge run",
		"run --json":          `unknown flag "--json": bridge run has no flags`,
		"demo --for":          "flag --for of bridge demo needs a value, as in --for 20s",
		"demo --keep=1":       `unknown flag "--keep=1" of bridge demo: did you mean --keep? It takes --keep, --for`,
		"demo -x":             `unknown flag "-x" of bridge demo. It takes --keep, --for`,
		"reconcile":           "bridge reconcile takes 1 argument, not 0: bridge reconcile [--dry-run] [--json] <mode> [<stream> ...]",
		"checkpoint set a":    "bridge checkpoint set takes 2 arguments, not 1: bridge checkpoint set <stream> <id>",
		"checkpoint set a -1": `unknown flag "-1": bridge checkpoint set has no flags`,
		"tail a b":            "bridge tail takes at most 1 argument, not 2: bridge tail [<stream>]",
	} {
		if _, err := sample().Parse(strings.Fields(line)); textOf(t, err) != want {
			t.Errorf("bridge %s: %v", line, err)
		}
	}
}

func TestParseOfAskedHelp(t *testing.T) {
	for line, topic := range map[string]string{
		"": "", "help": "", "--help": "", "-h": "", "help help": "", "help demo": "demo", "demo -help": "demo", "demo --wrong x --help": "demo",
		"checkpoint help": "checkpoint", "help checkpoint set": "checkpoint set", "checkpoint set a -h": "checkpoint set", "tail -- -h": "tail",
	} {
		want, err := sample().Help(strings.Fields(topic))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := sample().Parse(strings.Fields(line)); err != nil || !reflect.DeepEqual(got, Line{Help: want}) {
			t.Errorf("bridge %s: %v, %q", line, err, got.Help)
		}
	}
}
