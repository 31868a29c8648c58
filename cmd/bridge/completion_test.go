package main

import (
	"strings"
	"testing"

	"bridge/internal/cli"
)

func TestCompletion(t *testing.T) {
	for _, shell := range cli.Shells {
		t.Run(shell+" completes every command", func(t *testing.T) {
			got := outcome{}.call(settingsOf{}, "completion", shell)
			if got.status != exitFine || got.err != "" || !strings.Contains(got.out, "made by bridge completion "+shell) {
				t.Fatalf("%+v", got)
			}
			for _, c := range commands() {
				if !strings.Contains(got.out, c.Name) {
					t.Errorf("lacks %s", c.Name)
				}
			}
		})
	}
	t.Run("another shell is refused with the names of these", func(t *testing.T) {
		got := outcome{}.call(settingsOf{}, "completion", "tcsh")
		if got.status != exitUsage || !strings.Contains(got.err, "bash, zsh, fish") {
			t.Errorf("%+v", got)
		}
	})
}
