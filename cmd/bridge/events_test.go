package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatIsMaskedIsNowhere publishes rows, changes and deletes, and searches all that bridge has
// written or printed for the values of columns that are left out or masked.
func TestWhatIsMaskedIsNowhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  settingsOf
		want bool
	}{
		"without settings they are there": {nil, true},
		"left out":                        {settingsOf{"BRIDGE_STREAM_ORDERS_EXCLUDE": "note,secret"}, false},
		"masked": {settingsOf{
			"BRIDGE_STREAM_ORDERS_MASK": "note:redact,secret:sha256", "BRIDGE_MASK_KEY": "0123456789abcdef", "BRIDGE_LOG_LEVEL": "debug",
		}, false},
		"the last four alone": {settingsOf{"BRIDGE_STREAM_ORDERS_MASK": "note:last4,secret:last4"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			for name, value := range c.env {
				s.env[name] = value
			}
			s.exec("ALTER TABLE orders ADD COLUMN note TEXT")
			s.exec("ALTER TABLE orders ADD COLUMN secret TEXT")
			s.exec("UPDATE orders SET note = 'private-' || id || '-note', secret = 'hunter2-' || id || '-pass'")
			var printed bytes.Buffer
			run := func(line string) {
				got := outcome{}.call(s.env, strings.Fields(line)...)
				if got.status != exitFine {
					t.Errorf("bridge %s: status %d\n%s%s", line, got.status, got.out, got.err)
				}
				printed.WriteString(got.out + got.err)
			}
			run("reconcile")
			s.exec("UPDATE orders SET total = 7, secret = 'hunter2-new-pass' WHERE id < 9")
			s.exec("DELETE FROM orders WHERE id = 60")
			run("reconcile --dry-run")
			run("reconcile")
			run("verify")
			run("checkpoint show")
			run("schema --asyncapi")

			searched := 0
			err := filepath.WalkDir(filepath.Dir(strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:")), func(path string, entry os.DirEntry, err error) error {
				if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), "shop.db") {
					return err
				}
				searched++
				text, err := os.ReadFile(path)
				printed.Write(text)
				return err
			})
			if err != nil || searched < 5 {
				t.Fatalf("%d files were searched: %v", searched, err)
			}
			for _, value := range []string{"hunter2-", "private-"} {
				if got := bytes.Contains(printed.Bytes(), []byte(value)); got != c.want {
					t.Errorf("%q is there: %t, want %t", value, got, c.want)
				}
			}
		})
	}
}
