package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/reconcile"
)

// logs returns the tables of the stream logs, each with its state and position, and how many rows
// this app has published of them.
func (r *reloading) logs() (tables []string, rows uint64) {
	for _, s := range r.Daemon().Status().Streams {
		for _, sh := range s.Shards {
			if s.Name == "logs" {
				tables = append(tables, fmt.Sprint(sh.Shard, " ", sh.State, " ", sh.Position))
				rows += sh.Published.Rows
			}
		}
	}
	slices.Sort(tables)
	return tables, rows
}

// shown waits until the stream logs has exactly these tables, and this app has published so many
// rows of them. It is ready then.
func (r *reloading) shown(t *testing.T, rows uint64, want ...string) {
	t.Helper()
	until(t, fmt.Sprintf("%d rows of %q", rows, want), func() any { return fmt.Sprint(r.logs()) + fmt.Sprint(r.log) }, func() bool {
		got, n := r.logs()
		return slices.Equal(got, want) && n == rows
	})
	until(t, "it is ready", func() any { return r.Daemon().Ready(t.Context()) }, func() bool { return len(r.Daemon().Ready(t.Context())) == 0 })
}

// findOften has tables be looked for at once.
func findOften(t *testing.T) {
	every, missed, kept := lookEvery, missedEvery, keptLeft
	lookEvery, missedEvery = 100*time.Millisecond, 50*time.Millisecond
	t.Cleanup(func() { lookEvery, missedEvery, keptLeft = every, missed, kept })
}

// TestTablesThatComeAndGo: a pattern matches the tables that there are, to which START applies; new
// ones begin at their first row. One that is gone is no fault. It goes on if it comes back, and
// begins at its first row if it was made again.
func TestTablesThatComeAndGo(t *testing.T) {
	findOften(t)
	s := apptest.NewShop(t)
	create := func(name string, rows int) {
		s.Exec(t, "CREATE TABLE "+name+" (id INTEGER PRIMARY KEY AUTOINCREMENT, total INT)")
		for range rows {
			s.Exec(t, "INSERT INTO "+name+" (total) VALUES (1)")
		}
	}
	s.Env["BRIDGE_STREAMS"] = "orders,logs"
	s.Env["BRIDGE_STREAM_LOGS_TABLE"], s.Env["BRIDGE_STREAM_LOGS_KIND"], s.Env["BRIDGE_STREAM_LOGS_START"] = "log_*,log_1", "release", "latest"
	create("log_1", 3)
	create("log_2", 4)
	create("_log_1_gho", 1)
	r := newReloading(t, s)
	r.shown(t, 0, "log_1 running 3", "log_2 running 4")
	create("log_3", 5)
	r.shown(t, 5, "log_1 running 3", "log_2 running 4", "log_3 running 5")
	r.published(t, "orders", 60)

	s.Exec(t, "ALTER TABLE log_3 RENAME TO away")
	r.shown(t, 0, "log_1 running 3", "log_2 running 4", "log_3 gone 0")
	s.Exec(t, "INSERT INTO away (total) VALUES (1)")
	s.Exec(t, "ALTER TABLE away RENAME TO log_3")
	r.shown(t, 1, "log_1 running 3", "log_2 running 4", "log_3 running 6")

	s.Exec(t, "DROP TABLE log_3")
	r.shown(t, 0, "log_1 running 3", "log_2 running 4", "log_3 gone 0")
	create("log_3", 2)
	r.shown(t, 2, "log_1 running 3", "log_2 running 4", "log_3 running 2")

	keptLeft = 0
	s.Exec(t, "DROP TABLE log_2")
	r.shown(t, 0, "log_1 running 3", "log_2 gone 0", "log_3 running 2")
	until(t, "log_2 is forgotten", func() any { return r.log }, func() bool {
		image, err := r.disk.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		key := store.Key{Stream: "logs", Shard: "log_2"}
		_, known := image.Shards[key]
		_, marked := image.Shards[leftKey(key)]
		return !known && !marked
	})
	create("log_2", 9)
	r.shown(t, 9, "log_1 running 3", "log_2 running 9", "log_3 running 2")

	// One that is named is missed.
	s.Exec(t, "DROP TABLE log_1")
	until(t, "log_1 is missed", func() any { return r.log }, func() bool {
		reasons := r.Daemon().Ready(t.Context())
		return len(reasons) == 1 && reasons[0].Shard == "log_1"
	})
}

// TestAPatternThatMatchesNothing is waited for by name, and what it matches later is published.
func TestAPatternThatMatchesNothing(t *testing.T) {
	findOften(t)
	s := apptest.NewShop(t)
	s.Env["BRIDGE_STREAMS"] = "logs,orders"
	s.Env["BRIDGE_STREAM_LOGS_TABLE"], s.Env["BRIDGE_STREAM_LOGS_KIND"], s.Env["BRIDGE_STREAM_LOGS_KEY"] = "log_*", "capability", "total"
	r := newReloading(t, s)
	r.published(t, "orders", 60)
	until(t, "it says so", func() any { return r.log }, func() bool {
		reasons := r.Daemon().Ready(t.Context())
		return len(reasons) == 1 && reasons[0].Stream == "logs" && strings.Contains(reasons[0].Reason, "log_*")
	})
	const log = "CREATE TABLE log_1 (id INTEGER PRIMARY KEY AUTOINCREMENT, total INT NOT NULL UNIQUE)"
	s.Exec(t, log)
	s.Exec(t, "INSERT INTO log_1 (total) VALUES (1), (2)")
	r.shown(t, 2, "log_1 running 2")

	// Its entities stay until a person agrees that they are deleted.
	s.Exec(t, "DROP TABLE log_1")
	until(t, "log_1 is gone", func() any { return r.log }, func() bool { got, _ := r.logs(); return slices.Equal(got, []string{"log_1 gone 0"}) })
	live := func() (n int) {
		entries, err := r.disk.ByRow(t.Context(), store.Key{Stream: "logs", Shard: "log_1"}, 0, 9, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			if entries[i].Entry.State == store.Live {
				n++
			}
		}
		return n
	}
	if n := live(); n != 2 {
		t.Errorf("%d entities of a table that is gone are live", n)
	}
	s.Exec(t, log)
	r.shown(t, 0, "log_1 running 0")
	if n := live(); n != 2 {
		t.Errorf("%d entities are live before a person agrees", n)
	}
	if _, err := r.Daemon().Reconcile("logs", reconcile.Mode{AllowDeletes: true}); err != nil {
		t.Fatal(err)
	}
	until(t, "its entities are deleted", func() any { return r.log }, func() bool { return live() == 0 })
}

// TestPatternsOfSeveralSources: each pattern is of one source, whose tables have its name.
func TestPatternsOfSeveralSources(t *testing.T) {
	findOften(t)
	a, b := apptest.NewTwoShops(t)
	const log = "CREATE TABLE log_1 (id INTEGER PRIMARY KEY AUTOINCREMENT, total INT)"
	a.Exec(t, log)
	r := newReloading(t, a)
	r.shown(t, 0, "a/log_1 running 0")
	b.Exec(t, log)
	b.Exec(t, "INSERT INTO log_1 (total) VALUES (1), (2)")
	r.shown(t, 2, "a/log_1 running 0", "b/log_1 running 2")
	a.Exec(t, "DROP TABLE log_1")
	r.shown(t, 0, "a/log_1 gone 0", "b/log_1 running 2")
}

// TestATableThatMovesToAnotherSource is another table where patterns of both match it: it begins at
// its first row.
func TestATableThatMovesToAnotherSource(t *testing.T) {
	findOften(t)
	a, b := apptest.NewTwoShops(t)
	const log = "CREATE TABLE log_1 (id INTEGER PRIMARY KEY AUTOINCREMENT, total INT)"
	a.Exec(t, "CREATE TABLE log_0 (id INTEGER PRIMARY KEY AUTOINCREMENT, total INT)")
	a.Exec(t, log)
	a.Exec(t, "INSERT INTO log_1 (total) VALUES (1), (2)")
	r := newReloading(t, a)
	r.shown(t, 2, "a/log_0 running 0", "a/log_1 running 2")
	a.Exec(t, "DROP TABLE log_1")
	r.shown(t, 0, "a/log_0 running 0", "a/log_1 gone 0")
	b.Exec(t, log)
	b.Exec(t, "INSERT INTO log_1 (total) VALUES (1), (2)")
	r.shown(t, 2, "a/log_0 running 0", "a/log_1 gone 0", "b/log_1 running 2")
	if log := r.log.String(); !strings.Contains(log, "shard=b/log_1 pattern=b/log_* from_first=true") {
		t.Errorf("the log says otherwise: %s", log)
	}
}
