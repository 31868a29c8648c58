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
	parse := func(line string) (Call, error) {
		p := sample()
		found, rest, err := p.Find(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		return p.Parse(&found, rest)
	}
	type flags = map[string]bool
	type values = map[string]string
	for _, c := range []struct {
		line string
		want Call
	}{
		{"run", Call{nil, flags{}, values{}}},
		{"demo --for 2s --keep", Call{nil, flags{"keep": true}, values{"for": "2s"}}},
		{"demo -keep -for=2s=x", Call{nil, flags{"keep": true}, values{"for": "2s=x"}}},
		{"demo --for --keep", Call{nil, flags{}, values{"for": "--keep"}}},
		{"demo --for 1s --for 2s", Call{nil, flags{}, values{"for": "2s"}}},
		{"reconcile full", Call{[]string{"full"}, flags{}, values{}}},
		{"reconcile full a --json b", Call{[]string{"full", "a", "b"}, flags{"json": true}, values{}}},
		{"reconcile --json -- --dry-run -", Call{[]string{"--dry-run", "-"}, flags{"json": true}, values{}}},
		{"tail", Call{nil, flags{}, values{}}},
		{"tail -", Call{[]string{"-"}, flags{}, values{}}},
	} {
		if got, err := parse(c.line); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("bridge %s: %+v, %v", c.line, got, err)
		}
	}
	for line, want := range map[string]string{
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
		if _, err := parse(line); textOf(t, err) != want {
			t.Errorf("bridge %s: %v", line, err)
		}
	}
}
