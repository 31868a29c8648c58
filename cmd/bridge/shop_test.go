package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/config"
	"example.org/bridge/tests/must"
)

// shop is a database with the commands of a bridge that publishes it.
type shop struct {
	*apptest.Shop
	t   *testing.T
	env settingsOf
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := apptest.NewShop(t)
	return &shop{Shop: s, t: t, env: s.Env}
}

func (s *shop) exec(statement string) {
	s.t.Helper()
	s.Exec(s.t, statement)
}

func (s *shop) call(status int, words, line string) {
	s.t.Helper()
	mustCall(s.t, s.env, status, words, line)
}

func TestReconcileAlone(t *testing.T) {
	t.Run("catches up, publishes the difference once, and ends", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.call(exitFine, "orders orders 60 0 0 0 0 0", "reconcile")
		s.call(exitFine, "nothing is wrong", "verify")
		s.exec("UPDATE orders SET total = 7 WHERE id = 3")
		s.exec("DELETE FROM orders WHERE id IN (5, 60)")
		s.exec("INSERT INTO orders (id, name, total) VALUES (5, 'old id', 1)")
		s.call(exitFine, "orders orders 59 1 1 2 0 2", "reconcile orders")
		s.call(exitFine, "nothing is wrong", "verify")
		s.call(exitFine, "orders orders 59 0 0 0 0 0", "reconcile")
	})
	t.Run("says what it does before the first run, and counts it", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		got := outcome{}.call(s.env, "reconcile")
		for _, words := range []string{"no bridge runs at " + s.env["BRIDGE_HTTP_ADDR"], "there is no checkpoint at", "from its START on"} {
			if !strings.Contains(got.err, words) {
				t.Errorf("it does not say %q: %s", words, got.err)
			}
		}
		if got.status != exitFine || strings.Fields(got.out)[8] != "PUBLISHED" || !strings.Contains(strings.Join(strings.Fields(got.out), " "), "orders orders 60 0 0 0 0 0 60 ") {
			t.Errorf("status %d: %s", got.status, got.out)
		}
		s.exec("INSERT INTO orders (name, total) VALUES ('new', 1)")
		s.exec("UPDATE orders SET total = 7 WHERE id = 3")
		got = outcome{}.call(s.env, "reconcile")
		if !strings.Contains(got.err, "publishes what the tables have that was not published") || strings.Contains(got.err, "there is no checkpoint") {
			t.Errorf("at the second time it says %s", got.err)
		}
		if !strings.Contains(strings.Join(strings.Fields(got.out), " "), "orders orders 61 0 1 0 0 0 2 ") {
			t.Errorf("it counts otherwise: %s", got.out)
		}
		s.call(exitFine, "nothing is wrong", "verify")
	})
	t.Run("says of a release stream what it has compared", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_KIND"], s.env["BRIDGE_STREAM_ORDERS_KEY"] = "release", "id"
		s.call(exitFine, "orders orders 0 - - - 0 - 60", "reconcile")
		s.call(exitFine, "release streams (orders): only ids that were not published and are no longer polled are compared", "reconcile")
		s.call(exitFine, "orders orders 0 - - - 0 - ", "reconcile --dry-run")
		s.call(exitFine, `"compared": "unpolledIds"`, "reconcile --json")
	})
	t.Run("a dry run publishes and saves nothing, not even what the tail would", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.call(exitFailed, "there is no checkpoint at", "reconcile --dry-run")
		s.call(exitFine, "", "reconcile")
		s.exec("UPDATE orders SET total = 7 WHERE id = 3")
		s.exec("DELETE FROM orders WHERE id = 60")
		s.exec("INSERT INTO orders (name, total) VALUES ('new', 1)")
		path := strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:")
		before := contents(t, path)
		s.call(exitFine, "orders orders 59 0 1 1 0 1", "reconcile --dry-run")
		s.call(exitFine, "modified row 3, entity o3 orders orders: deleted row 60, entity o60 dry run: nothing was published", "reconcile --dry-run")
		cfg := must.Get((&environment{environ: s.env.Environ(), secrets: &config.Redactor{}}).load())(t)
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		o := app.InsideOptions{Config: cfg, Logger: slog.New(slog.DiscardHandler), DryRun: true}
		if _, err := app.RunInside(ctx, o, func(ctx context.Context, bridge *app.Inside) error {
			// No stream is asked for, as where all tables are stopped.
			bridge.Begin(ctx)
			for {
				status, err := bridge.Working(ctx)
				if err != nil || status.Streams[0].Shards[0].Reconcile.LastDryRun != nil {
					return err
				}
				if err := backoff.Pause(ctx, time.Millisecond); err != nil {
					return err
				}
			}
		}); err != nil {
			t.Errorf("the run was not a dry run: %v", err)
		}
		if contents(t, path) != before {
			t.Error("the checkpoint has changed")
		}
		s.call(exitFailed, "rows without an event", "verify")
	})
	t.Run("holds deletes back until a person agrees", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.call(exitFine, "", "reconcile")
		s.exec("DELETE FROM orders WHERE id > 20")
		s.call(exitFailed, "orders orders 20 0 0 0 0 40", "reconcile")
		s.call(exitFailed, "bridge reconcile --allow-deletes orders", "reconcile")
		s.call(exitFine, "deletes held back", "checkpoint show")
		s.call(exitFine, "orders orders 20 0 0 40 0 40", "reconcile --allow-deletes")
		s.call(exitFine, "nothing is wrong", "verify")
		s.env["BRIDGE_RECONCILE_MAX_DELETES"] = "100%"
		s.exec("DELETE FROM orders")
		s.call(exitFine, "orders orders 0 0 0 20 0 20", "reconcile")
	})
	t.Run("goes on with a table that uses its ids again once a person agrees", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.call(exitFine, "", "reconcile")
		s.exec("DELETE FROM orders")
		s.exec("DELETE FROM sqlite_sequence")
		s.exec("INSERT INTO orders (name, total) VALUES ('o60', 60), ('o59', 1), ('new', 1)")
		s.call(exitFailed, "the table uses ids again", "reconcile")
		// Whether the tail or the reconcile publishes the rows that are there, and that those
		// which had their ids are gone, is chance: PUBLISHED counts both.
		s.call(exitFine, " 60 ", "reconcile --allow-deletes")
		s.call(exitFine, "nothing is wrong", "verify")
	})
	t.Run("says where a bridge may be that holds the checkpoint and does not answer", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		inStore(t, strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:"), func(store.Store) {
			for _, line := range []string{"reconcile", "reconcile --dry-run"} {
				s.call(exitFailed, "set BRIDGE_HTTP_ADDR to the address on which it listens", line)
			}
		})
	})
	t.Run("reports a table that cannot be read, after the others", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.env["BRIDGE_STREAM_ORDERS_TABLE"] = "missing,orders"
		s.call(exitFailed, "orders missing: failed: not compared: ask about the indexes of missing: missing in the source", "reconcile")
		s.call(exitFailed, "orders orders 60 0 0 0 0 0", "reconcile")
	})
}

func contents(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	must.OK(t, filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		fmt.Fprintf(&all, "%s %d\n%s\n", name, len(text), text)
		return err
	}))
	return all.String()
}

func (s *shop) messages() int {
	s.t.Helper()
	got := outcome{}.call(s.env, "verify", "--json")
	var report struct{ Messages int }
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		s.t.Fatalf("%v, %+v", err, got)
	}
	return report.Messages
}

// wantMessages reconciles, and fails the test unless so many messages are on the bus then.
func (s *shop) wantMessages(behind string, want int) {
	s.t.Helper()
	s.call(exitFine, "orders orders", "reconcile")
	if got := s.messages(); got != want {
		s.t.Errorf("behind %s: %d messages, want %d", behind, got, want)
	}
}

func TestWhatCheckpointCommandsHavePublished(t *testing.T) {
	t.Parallel()
	for kind, key := range map[string]string{"capability": "name", "release": "id"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.env["BRIDGE_STREAM_ORDERS_KIND"], s.env["BRIDGE_STREAM_ORDERS_KEY"] = kind, key
			s.wantMessages("the start", 60)
			s.call(exitFine, "next start reads the bus", "checkpoint rebuild orders")
			s.wantMessages("rebuild", 60)
			s.call(exitFine, "id 60 is now id 50, no gaps", "checkpoint set orders orders 50")
			want := 70
			if kind == "release" {
				// The bus drops the same facts as duplicates.
				want = 60
			}
			s.wantMessages("set", want)
			inStore(t, strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:"), func(kept store.Store) {
				p, _, err := kept.Progress(t.Context(), store.Key{Stream: "orders", Shard: "orders"})
				if err != nil || p.Position != 60 || p.Since == 0 {
					t.Errorf("%+v, %v", p, err)
				}
			})
			s.exec("INSERT INTO orders (id, name, total) VALUES (70, 'new', 1)")
			s.exec("DELETE FROM orders WHERE id = 60")
			s.env["BRIDGE_STREAM_ORDERS_START"] = "latest"
			s.call(exitFine, "removed the checkpoint of 1 shard", "checkpoint reset orders")
			s.wantMessages("reset", want)
			s.exec("INSERT INTO orders (id, name, total) VALUES (71, 'newer', 1)")
			s.exec("DELETE FROM orders WHERE id = 59")
			s.call(exitFine, "", "reconcile")
			if kind == "release" {
				want--
			}
			if got := s.messages(); got != want+2 {
				t.Errorf("at the end: %d messages, want %d", got, want+2)
			}
		})
	}
}

func TestSchemaCommand(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_STREAM_ORDERS_DESTINATION"] = "shop.{key}"
	got := outcome{}.call(s.env, "schema", "orders")
	var printed map[string]map[string]struct {
		Title      string
		Properties struct{ Data struct{ Required []string } }
	}
	if err := json.Unmarshal([]byte(got.out), &printed); err != nil || got.status != exitFine {
		t.Fatalf("status %d, %v: %s%s", got.status, err, got.out, got.err)
	}
	for operation, want := range map[string]string{"added": "id name total row", "modified": "id name total row", "deleted": "name reason row"} {
		one := printed["orders"][operation]
		if members := strings.Join(one.Properties.Data.Required, " "); members != want {
			t.Errorf("%s requires %q, want %q", operation, members, want)
		}
	}
	got = outcome{}.call(s.env, "schema", "--asyncapi")
	var document struct {
		Channels map[string]struct {
			Address    string
			Parameters map[string]any
		}
	}
	if err := json.Unmarshal([]byte(got.out), &document); err != nil || got.status != exitFine {
		t.Fatalf("status %d, %v: %s%s", got.status, err, got.out, got.err)
	}
	if c := document.Channels["shop._key_"]; c.Address != "shop.{key}" || c.Parameters["key"] == nil {
		t.Errorf("channels: %+v", document.Channels)
	}
	s.call(exitUsage, `no stream is configured as "other": there are orders`, "schema other")
	// A table that cannot be read leaves out its stream alone.
	two := maps.Clone(s.env)
	two["BRIDGE_STREAMS"], two["BRIDGE_STREAM_GONE_TABLE"], two["BRIDGE_STREAM_GONE_KIND"] = "gone,orders", "gone", "release"
	got = outcome{}.call(two, "schema")
	clear(printed)
	if err := json.Unmarshal([]byte(got.out), &printed); err != nil || got.status != exitFailed || len(printed) != 1 || printed["orders"] == nil {
		t.Errorf("status %d, %v: %s", got.status, err, got.out)
	}
	if !strings.Contains(got.err, `stream gone: read the columns of gone`) {
		t.Errorf("stderr %q", got.err)
	}
	s.exec("DROP TABLE orders")
	s.call(exitFailed, `stream orders: read the columns of orders: read orders after 0: missing in the source: no table "orders"`, "schema")
	delete(s.env, "BRIDGE_STREAMS")
	s.call(exitUsage, "the configuration is wrong", "schema")
}

func TestVerifyNamesAnotherKeyAndOtherDomains(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_STREAM_ORDERS_DESTINATION"] = "orders.{type}"
	s.call(exitFine, "", "reconcile")
	s.env["BRIDGE_STREAM_ORDERS_KEY"] = "NAME"
	s.call(exitFine, "nothing is wrong", "verify")
	delete(s.env, "BRIDGE_STREAM_ORDERS_KEY")
	s.call(exitFailed, "WRONG: otherKey 1: the stream was published under another KIND, KEY or scope", "verify")
	s.env["BRIDGE_STREAM_ORDERS_KEY"], s.env["BRIDGE_DOMAIN_ID"] = "name", "another"
	s.call(exitFailed, "bus: 60 messages in 1 partition, 60 of the domain bridge stream orders: capability, 1 table with 60 rows; 0 events", "verify")
}

func TestVerifyJudgesTheOtherStreams(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_STREAM_ORDERS_DESTINATION"] = "orders.{type}"
	s.call(exitFine, "", "reconcile")
	s.env["BRIDGE_STREAMS"] = "orders,gone,bound"
	s.env["BRIDGE_STREAM_GONE_TABLE"], s.env["BRIDGE_STREAM_GONE_KIND"] = "gone", "release"
	s.exec(`CREATE TABLE bound (id INTEGER PRIMARY KEY, "row" TEXT)`)
	s.env["BRIDGE_STREAM_BOUND_TABLE"], s.env["BRIDGE_STREAM_BOUND_KIND"] = "bound", "release"
	got := outcome{}.call(s.env, "verify")
	if got.status != exitFailed {
		t.Errorf("status %d", got.status)
	}
	for _, want := range []string{"stream orders: capability, 1 table with 60 rows; 60 events", "stream gone: NOT JUDGED, for its table gone: ", "stream bound: NOT JUDGED, for its table bound: ", `column "row" becomes the member "row"`, "BRIDGE_STREAM_BOUND_FIELDS"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in %s", want, got.out)
		}
	}
	if strings.Contains(got.out, "WRONG") || !strings.Contains(got.err, "the stream gone could not be judged, for its table gone; the stream bound could not be judged") {
		t.Errorf("out %s\nerr %s", got.out, got.err)
	}
	// A source that is away leaves out the streams that have tables there, perhaps.
	s.env["BRIDGE_SOURCES"], s.env["BRIDGE_SOURCE_B_URL"] = "b", "mysql://u:p@127.0.0.1:1/b"
	s.env["BRIDGE_STREAM_GONE_TABLE"], s.env["BRIDGE_STREAM_BOUND_TABLE"] = "log_*,b/log_*", "bound_*"
	s.env["BRIDGE_STREAM_GONE_DESTINATION"], s.env["BRIDGE_DEAD_LETTER"] = "logs", "dead"
	s.exec("CREATE TABLE log_1 (id INTEGER PRIMARY KEY AUTOINCREMENT)")
	s.call(exitFailed, "stream gone: NOT JUDGED, for its table b/log_*: source b: list the tables", "verify")
	s.call(exitFailed, "stream orders: capability, 1 table with 60 rows; 60 events", "verify")
	s.call(exitFailed, `"orders": {`, "schema")
	s.call(exitFailed, "stream gone ok 1 table, ids strict (SQLite has one writer at a time), log_* matches 1 table (log_1), b/log_* not looked at", "check")
	s.call(exitFine, "no dead letters", "deadletter list")
}
