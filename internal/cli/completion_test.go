package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shellRuns are the programs that print what a shell proposes for a line, one a line, of the words
// that are their arguments; the first one is the script.
var shellRuns = map[string][]string{
	"bash": {"bash", "--norc", "-c", `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bridge; printf '%s\n' "${COMPREPLY[@]}"`},
	"zsh": {"zsh", "-fc", `compdef() {}; _describe() { for one in "${(@P)2}"; do print -r -- "${one%%:*}"; done }
		source "$0"; words=("$@"); CURRENT=$#; _bridge`},
	"fish": {"fish", "--no-config", "-c", `source $argv[1]; complete -C (string join ' ' -- $argv[2..-1])`},
}

func TestCompletion(t *testing.T) {
	for _, shell := range Shells {
		t.Run(shell, func(t *testing.T) {
			text, err := sample().Completion(shell)
			if err != nil {
				t.Fatal(err)
			}
			run := shellRuns[shell]
			if _, err := exec.LookPath(run[0]); err != nil {
				t.Skipf("no %s here: its completion is not tested", shell)
			}
			script := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				line   []string
				want   []string
				others bool // there may be others
			}{
				{[]string{"bridge", ""}, []string{"run", "demo", "reconcile", "checkpoint", "tail", "completion", "help"}, shell == "fish"},
				{[]string{"bridge", "checkpoint", ""}, []string{"show", "set"}, shell == "fish"},
				{[]string{"bridge", "help", "checkpoint", ""}, []string{"show", "set"}, false},
				{[]string{"bridge", "reconcile", "full", "--"}, []string{"--dry-run", "--json", "--help"}, false},
				{[]string{"bridge", "demo", "--"}, []string{"--for", "--keep", "--help"}, false},
				{[]string{"bridge", "demo", "--for", ""}, nil, false},
				{[]string{"bridge", "completion", ""}, []string{"bash", "zsh", "fish"}, true},
			} {
				out, err := exec.Command(run[0], slices.Concat(run[1:], []string{script}, c.line)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v\n%s", c.line, err, out)
				}
				var names []string
				for line := range strings.Lines(string(out)) {
					name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
					if name != "" {
						names = append(names, name)
					}
				}
				slices.Sort(names)
				slices.Sort(c.want)
				missing := slices.ContainsFunc(c.want, func(one string) bool { return !slices.Contains(names, one) })
				if missing || !c.others && !slices.Equal(names, c.want) {
					t.Errorf("%q: proposes %q, want %q", c.line, names, c.want)
				}
			}
		})
	}
	t.Run("another shell is refused with the names of these", func(t *testing.T) {
		if _, err := sample().Completion("tcsh"); textOf(t, err) != `unknown shell "tcsh": use one of bash, zsh, fish` {
			t.Error(err)
		}
	})
}
