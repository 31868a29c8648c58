package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRowsThatDoNotMatch publishes a table with a condition on its rows.
func TestRowsThatDoNotMatch(t *testing.T) {
	t.Run("of a capability stream they are deleted, and added when they match", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_FILTER"] = "total <= 40 AND name <> 'o7'"
		s.wantMessages("the start", 39)
		s.call(exitFine, "nothing is wrong", "verify")
		s.exec("UPDATE orders SET total = 50 WHERE id IN (1, 2, 50)")
		s.exec("UPDATE orders SET total = NULL WHERE id = 3")
		s.exec("UPDATE orders SET total = 4 WHERE id = 60")
		s.call(exitFailed, "does not match the condition of the stream, the last event says that it lives", "verify")
		s.call(exitFine, "orders orders 60 1 0 3 0 0", "reconcile --dry-run")
		s.call(exitFine, "orders orders 60 1 0 3 0 0", "reconcile")
		s.call(exitFine, "orders orders 60 0 0 0 0 0", "reconcile")
		s.call(exitFine, "nothing is wrong", "verify")
		// Under a new id, which the tail reads, and in a row that was never published.
		s.exec("DELETE FROM orders WHERE id IN (10, 1, 59)")
		s.exec("INSERT INTO orders (name, total) VALUES ('o10', 99), ('o1', 98), ('new', 97)")
		s.exec("UPDATE orders SET total = 5 WHERE id = 2")
		s.wantMessages("rows under other ids", 43+2)
		s.call(exitFine, "nothing is wrong", "verify")
	})
	t.Run("of a release stream they are no events, and no gaps", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_KIND"], s.env["BRIDGE_STREAM_ORDERS_KEY"] = "release", "id"
		s.env["BRIDGE_STREAM_ORDERS_FILTER"] = "total % 2 = 0"
		s.wantMessages("the start", 30)
		s.exec("INSERT INTO orders (id, name, total) VALUES (70, 'n', 2), (71, 'n1', 1), (65, 'n2', 1)")
		s.wantMessages("an id that is missing", 31)
		s.call(exitFine, "nothing is wrong", "verify")
		// What did not match is handled, whatever comes.
		delete(s.env, "BRIDGE_STREAM_ORDERS_FILTER")
		s.wantMessages("the end of the condition", 31)
		s.call(exitFailed, "rows without an event", "verify")
		// Not so once the state is lost: then it is unknown which of them did not match.
		s.call(exitFine, "next start reads the bus", "checkpoint rebuild orders")
		s.env["BRIDGE_STREAM_ORDERS_FILTER"] = "total % 2 = 0"
		s.wantMessages("a rebuild", 31)
		s.call(exitFine, "nothing is wrong", "verify")
	})
	t.Run("the condition sees what is left out or masked", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_FILTER"], s.env["BRIDGE_STREAM_ORDERS_MASK"] = "total <= 10", "total:redact"
		s.wantMessages("a masked column", 10)
		delete(s.env, "BRIDGE_STREAM_ORDERS_MASK")
		s.env["BRIDGE_STREAM_ORDERS_EXCLUDE"] = "total"
		s.wantMessages("a column that is left out", 20)
		s.call(exitFine, "nothing is wrong", "verify")
	})
}

// TestABadCondition: it is named with its variable, before a row is read.
func TestABadCondition(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const variable = "BRIDGE_STREAM_ORDERS_FILTER"
	for condition, why := range map[string]string{
		"totl > 1": "no such column: totl", "total >": "syntax error", `total > "totl"`: `"totl" in double quotes, which is not a column`,
	} {
		s.env[variable] = condition
		s.call(exitFailed, why, "check")
		s.call(exitFailed, "orders does not fit the condition on its rows", "schema")
		s.call(exitFailed, ": correct "+variable, "schema")
		s.call(exitFailed, why, "schema")
	}
}

// TestEveryFormatOfEvents publishes in one format after the other, and verifies all of it.
func TestEveryFormatOfEvents(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.call(exitFine, "orders orders 60 0 0 0 0 0", "reconcile")
	for i, format := range []string{"cloudevents", "row", "eiffel"} {
		s.env["BRIDGE_STREAM_ORDERS_EVENT_FORMAT"] = format
		s.exec([]string{"UPDATE orders SET total = 7 WHERE id = 3", "UPDATE orders SET total = 8 WHERE id = 3", "UPDATE orders SET total = 9 WHERE id = 3"}[i])
		s.exec([]string{"DELETE FROM orders WHERE id = 5", "DELETE FROM orders WHERE id = 6", "DELETE FROM orders WHERE id = 7"}[i])
		s.call(exitFine, "", "reconcile")
		s.call(exitFine, "nothing is wrong", "verify")
	}
}

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

// TestAChangeThatAMaskHides: only what is published can change.
func TestAChangeThatAMaskHides(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("ALTER TABLE orders ADD COLUMN card TEXT")
	s.exec("UPDATE orders SET card = '4111-2222-3333-' || (1000 + id)")
	s.env["BRIDGE_STREAM_ORDERS_MASK"] = "card:last4"
	s.call(exitFine, "orders orders 60 0 0 0 0 0", "reconcile")
	s.exec("UPDATE orders SET card = '9999-9999-9999-1001' WHERE id = 1")
	s.exec("UPDATE orders SET card = '4111-2222-3333-0000' WHERE id = 2")
	s.call(exitFine, "orders orders 60 0 1 0 0 0", "reconcile")
	s.call(exitFine, "nothing is wrong", "verify")
	s.env["BRIDGE_STREAM_ORDERS_MASK"] = "card:redact"
	s.call(exitFine, "orders orders 60 0 60 0 0 0", "reconcile")
	s.env["BRIDGE_STREAM_ORDERS_MASK"] = "cart:redact"
	s.call(exitFailed, `orders has no column "cart", which MASK names: correct BRIDGE_STREAM_ORDERS_MASK`, "schema")
}

// TestAMaskThatComesLater: the rows published last are known by their content, which a mask
// changes. That does not make them others.
func TestAMaskThatComesLater(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"release", "capability"} {
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_KIND"] = kind
		s.call(exitFine, "orders", "reconcile")
		for i, mask := range []string{"total:redact", "total:sha256", "total:sha256", "total:last4"} {
			s.env["BRIDGE_STREAM_ORDERS_MASK"], s.env["BRIDGE_MASK_KEY"] = mask, fmt.Sprint("0123456789abcdef", i)
			s.exec(fmt.Sprintf("INSERT INTO orders (name, total) VALUES ('new %d', 1)", i))
			s.call(exitFine, "orders", "reconcile")
			s.call(exitFine, fmt.Sprintf("orders orders %d", 61+i), "checkpoint show")
		}
	}
}
