package main

import (
	"os/exec"
	"strings"
	"testing"

	"example.org/bridge/internal/config"
)

func TestManPage(t *testing.T) {
	text := outcome{}.call(settingsOf{}, "man").out
	t.Run("has every command and variable", func(t *testing.T) {
		for _, name := range commandNames() {
			if !strings.Contains(text, ".SS bridge "+strings.ReplaceAll(name, "-", `\-`)) {
				t.Errorf("lacks %s", name)
			}
		}
		for _, v := range config.Variables() {
			if !strings.Contains(text, ".BR "+v.Name+" ") {
				t.Errorf("lacks %s", v.Name)
			}
		}
	})
	t.Run("is ASCII", func(t *testing.T) {
		for line := range strings.Lines(text) {
			if strings.ContainsFunc(line, func(r rune) bool { return r > '~' }) {
				t.Errorf("not ASCII: %s", line)
			}
		}
	})
	t.Run("is formatted without a warning", func(t *testing.T) {
		if _, err := exec.LookPath("groff"); err != nil {
			t.Skip("no groff here: the page is not formatted")
		}
		format := exec.Command("groff", "-man", "-ww", "-Tutf8")
		format.Stdin = strings.NewReader(text)
		var warnings strings.Builder
		format.Stderr = &warnings
		out, err := format.Output()
		if err != nil || warnings.Len() > 0 || !strings.Contains(string(out), "BRIDGE_SOURCE_URL") {
			t.Errorf("%v: %s", err, warnings.String())
		}
	})
}
