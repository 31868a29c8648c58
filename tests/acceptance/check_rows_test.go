package acceptance

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

// TestCheckReadsRows: what keeps a stream from publishing its rows, or has it publish live ones as
// deleted, is found before it runs, and the remedy is what the stream needs.
func TestCheckReadsRows(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	table, e := shop(t, testenv.MariaDB(t))
	// The shared server flushes no commit, which check notes.
	find := func(t *testing.T, e world.Env, code string) (found []world.CheckFinding) {
		t.Helper()
		return answered(t, e).Find(code)
	}
	runs := func(t *testing.T, e world.Env) map[string]bool {
		t.Helper()
		d := world.NewDaemon(t, world.Binary(t, false), e.With(world.Env{"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(t.TempDir(), "bridge.db")}))
		d.Start()
		seen := make(map[string]bool)
		world.Eventually(t, time.Minute, "events, or a stop", func() bool {
			for line := range strings.Lines(d.Log.String()) {
				var event struct {
					Meta struct{ Type string }
					Data map[string]any
				}
				if json.Unmarshal([]byte(line), &event) == nil && event.Meta.Type != "" {
					seen[event.Meta.Type] = true
				}
			}
			return len(seen) > 0 || strings.Contains(d.Log.String(), `msg="shard stopped`)
		})
		d.Kill()
		return seen
	}
	t.Run("members that collide", func(t *testing.T) {
		table.Exec("ALTER TABLE orders ADD reason int, ADD user_id int, ADD userId int")
		defer table.Exec("ALTER TABLE orders DROP reason, DROP user_id, DROP userId")
		found := find(t, e, "table-unfit")
		if len(found) != 1 || found[0].Severity != "unsafe" || !strings.Contains(found[0].What, `member "reason"`) || !strings.Contains(found[0].What, `member "userId"`) ||
			!strings.Contains(found[0].What, "BRIDGE_STREAM_ORDERS_EXCLUDE") {
			t.Fatalf("found %+v", found)
		}
		if seen := runs(t, e); len(seen) > 0 {
			t.Errorf("it publishes %v", seen)
		}
		out := e.With(world.Env{"BRIDGE_STREAM_ORDERS_EXCLUDE": "reason,userId"})
		if found := find(t, out, "table-unfit"); len(found) > 0 || !runs(t, out)["OrdersAddedEvent"] {
			t.Errorf("found %+v", found)
		}
		facts := e.With(world.Env{"BRIDGE_STREAM_ORDERS_KIND": "release", "BRIDGE_STREAM_ORDERS_EXCLUDE": "userId"})
		if found := find(t, facts, "table-unfit"); len(found) > 0 || !runs(t, facts)["OrdersPublishedEvent"] {
			t.Errorf("a column reason of a release stream: found %+v", found)
		}
	})
	t.Run("values of DELETED", func(t *testing.T) {
		for name, c := range map[string]struct {
			column, set, deleted string
			// without says that nothing is found.
			without bool
		}{
			"an ENUM with other words":                {"enum('ACTIVE','DELETED') NOT NULL DEFAULT 'ACTIVE'", "", "x=deleted", false},
			"a text with other words":                 {"varchar(20) NOT NULL DEFAULT 'active'", "", "x=DELETED|ARCHIVED", false},
			"a number by which most rows are deleted": {"int NOT NULL DEFAULT 1", "", "x=2", false},
			"a date that is far":                      {"datetime NOT NULL DEFAULT '9999-12-31 23:59:59'", "", "x!=9999-12-31", false},
			"a flag":                                  {"enum('N','Y') NOT NULL DEFAULT 'N'", "", "", true},
		} {
			t.Run(name, func(t *testing.T) {
				table.Exec("ALTER TABLE orders ADD x " + c.column)
				defer table.Exec("ALTER TABLE orders DROP x")
				bare := e.With(world.Env{"BRIDGE_STREAM_ORDERS_DELETED": "x"})
				found := find(t, bare, "deleted-values")
				if c.without {
					if len(found) > 0 {
						t.Errorf("found %+v", found)
					}
					return
				}
				if len(found) != 1 || found[0].Severity != "warning" || !strings.Contains(found[0].Do, "BRIDGE_STREAM_ORDERS_DELETED=x=VALUE") {
					t.Fatalf("found %+v", answered(t, bare).Findings())
				}
				said := e.With(world.Env{"BRIDGE_STREAM_ORDERS_DELETED": c.deleted})
				for _, f := range find(t, said, "deleted-values") {
					// No row has some of these values yet.
					if f.Severity != "note" || !strings.Contains(f.What, "in none of 2 rows") {
						t.Errorf("found %+v", f)
					}
				}
				if seen := runs(t, said); !seen["OrdersAddedEvent"] {
					t.Errorf("events %v", seen)
				}
			})
		}
	})
	t.Run("values that DELETED names and no row has", func(t *testing.T) {
		for _, c := range []struct{ column, deleted, code, severity, what string }{
			{"enum('ACTIVE','DELETED') NOT NULL", "x=status=DELETE", "deleted-values", "warning", `never has "status=DELETE"`},
			{"enum('ACTIVE','DELETED') NOT NULL", "x=DELETED", "deleted-values", "", ""},
			{"enum('ACTIVE','DELETED') NOT NULL", "x!=ACTIVE|LIVE", "deleted-values", "warning", `never has "LIVE"`},
			{"set('a','it''s') NOT NULL", "x=b", "deleted-values", "warning", `never has "b"`},
			{"set('a','it''s') NOT NULL DEFAULT 'a,it''s'", "x=a,IT's", "deleted-values", "", ""},
			{"varchar(20) NOT NULL DEFAULT 'deleted'", "x=DELETED", "deleted-values", "", ""},
			{"varchar(20) NOT NULL DEFAULT 'deleted'", "x=DELETED|DELETE", "deleted-values", "note", `has "DELETE"`},
			{"int NOT NULL DEFAULT 1", "x=9", "deleted-values", "note", `has "9"`},
			{"datetime", "x=DELETED", "table-unfit", "unsafe", `"DELETED"`},
			{"date", "x!=9999-12-31 00:00:00", "table-unfit", "unsafe", `"9999-12-31 00:00:00"`},
		} {
			t.Run(c.column+" "+c.deleted, func(t *testing.T) {
				table.Exec("ALTER TABLE orders ADD x " + c.column)
				defer table.Exec("ALTER TABLE orders DROP x")
				found := find(t, e.With(world.Env{"BRIDGE_STREAM_ORDERS_DELETED": c.deleted}), c.code)
				if c.severity == "" && len(found) > 0 ||
					c.severity != "" && (len(found) != 1 || found[0].Severity != c.severity || !strings.Contains(found[0].What, c.what)) {
					t.Errorf("found %+v", found)
				}
			})
		}
	})
	t.Run("an ENUM in a table without rows", func(t *testing.T) {
		table.Exec("CREATE TABLE later (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, state enum('LIVE','GONE') NOT NULL)")
		empty := e.With(world.Env{"BRIDGE_STREAM_ORDERS_TABLE": "later", "BRIDGE_STREAM_ORDERS_KEY": "", "BRIDGE_STREAM_ORDERS_DELETED": "state"})
		for _, column := range []string{"CREATED", "MODIFIED"} {
			empty["BRIDGE_STREAM_ORDERS_"+column] = ""
		}
		if found := find(t, empty, "deleted-values"); !slices.ContainsFunc(found, func(f world.CheckFinding) bool { return strings.Contains(f.What, `"GONE", "LIVE"`) }) {
			t.Errorf("found %+v", answered(t, empty).Findings())
		}
	})
}
