package cli

import (
	"strings"
	"testing"
)

const (
	overviewText = `bridge is a sample.

Usage: bridge <command>

  run                publish (default)
  demo               see events
  reconcile          compare tables: publish the rest
  checkpoint show    show progress
  checkpoint set     change progress
  tail               don't stop
  completion         print a script
  help <command>     tell more about a command
  help variables     list the variables, their defaults and what they mean

Exit status: 0 fine, 2 wrong usage.
`
	variablesText = `Source

  A_URL (required)
      Where it reads.

  A_NAME (the host's "name")
      Its name…

Bus

  B_URL (required)
      Where it publishes.
`
)

func TestHelp(t *testing.T) {
	for topic, want := range map[string]string{
		"":               overviewText,
		"--help":         overviewText,
		"variables":      variablesText,
		"run":            "Usage: bridge run\n\nPublish (default).\n\nIt runs. All variables:\n" + variablesText,
		"checkpoint set": "Usage: bridge checkpoint set <stream> <id>\n\nChange progress.\n",
		"checkpoint":     "Usage:\n  bridge checkpoint show [--json]\n      show progress\n  bridge checkpoint set <stream> <id>\n      change progress\n\nStop bridge first.\n",
	} {
		if got, err := sample().Help(strings.Fields(topic)); err != nil || got != want {
			t.Errorf("help %s: %v, got\n%s\nwant\n%s", topic, err, got, want)
		}
	}
	for topic, want := range map[string]string{
		"run x":          "bridge help takes the name of a command, or variables: see bridge help",
		"checkpoint shw": `unknown command "checkpoint shw": did you mean bridge checkpoint show? There are show, set`,
	} {
		if got, err := sample().Help(strings.Fields(topic)); got != "" || textOf(t, err) != want {
			t.Errorf("help %s: %q, %v", topic, got, err)
		}
	}
}
