package main

import (
	"os/exec"
	"strings"
	"testing"

	"bridge/internal/config"
)

func TestManPage(t *testing.T) {
	text := manPage(buildVersion{Version: "v1.2.3", Built: "2026-11-25T09:08:57+01:00"}, commands(), config.Variables())
	t.Run("has every command, flag and variable", func(t *testing.T) {
		for _, c := range commands() {
			if want := ".SS " + roff(strings.Join(c.usage(), " ")) + "\n"; !strings.Contains(text, want) {
				t.Errorf("lacks %s", want)
			}
		}
		for _, v := range config.Variables() {
			if !strings.Contains(text, ".BR "+roff(v.Name)+" ") {
				t.Errorf("lacks %s", v.Name)
			}
		}
	})
	t.Run("says of which version and day it is", func(t *testing.T) {
		if first, _, _ := strings.Cut(text, "\n"); first != `.TH BRIDGE 1 "2026-11-25" "bridge v1.2.3" "User Commands"` {
			t.Error(first)
		}
	})
	t.Run("is ASCII without a line that roff would obey", func(t *testing.T) {
		for line := range strings.Lines(text) {
			if strings.ContainsFunc(line, func(r rune) bool { return r > '~' }) {
				t.Errorf("not ASCII: %s", line)
			}
		}
		for in, want := range map[string]string{".SH x": `\&.SH x`, "'x": `\&'x`, `a\b-…`: `a\eb\-\[u2026]`} {
			if got := roff(in); got != want {
				t.Errorf("%s became %s, want %s", in, got, want)
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
