package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

// logs returns the tables of the stream logs, each with its state and position, and how many rows
// this process has published of them.
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

// shown waits until the stream logs has exactly these tables, and this process has published so
// many rows of those that it has. It is ready then.
func (r *reloading) shown(t *testing.T, rows uint64, want ...string) {
	t.Helper()
	until(t, fmt.Sprintf("%d rows of %q", rows, want), func() any { return fmt.Sprint(r.logs()) + fmt.Sprint(r.log) }, func() bool {
		got, n := r.logs()
		return slices.Equal(got, want) && n == rows
	})
	until(t, "it is ready", func() any { return r.Daemon().Ready(t.Context()) }, func() bool { return len(r.Daemon().Ready(t.Context())) == 0 })
}

// newLogs returns a shop with the stream logs beside, a release stream of the tables log_*, which
// are looked for at once.
func newLogs(t *testing.T) *apptest.Shop {
	findOften(t)
	s := apptest.NewShop(t)
	s.Env["BRIDGE_STREAMS"] = "orders,logs"
	s.Env["BRIDGE_STREAM_LOGS_TABLE"], s.Env["BRIDGE_STREAM_LOGS_KIND"] = "log_*", "release"
	return s
}

// findOften has tables be looked for at once.
func findOften(t *testing.T) {
	every, missed, kept, clock := lookEvery, missedEvery, keptLeft, steady
	lookEvery, missedEvery = 100*time.Millisecond, 50*time.Millisecond
	t.Cleanup(func() { lookEvery, missedEvery, keptLeft, steady = every, missed, kept, clock })
}

// TestTablesThatComeAndGo: a pattern matches the tables that there are, to which START applies; new
// ones begin at their first row. One that is gone is no fault. It goes on if it comes back, and
// begins at its first row if it was made again.
func TestTablesThatComeAndGo(t *testing.T) {
	s := newLogs(t)
	s.Env["BRIDGE_STREAM_LOGS_TABLE"], s.Env["BRIDGE_STREAM_LOGS_START"] = "log_*,log_1", "latest"
	s.Create(t, "log_1", 3)
	s.Create(t, "log_2", 4)
	s.Create(t, "_log_1_gho", 1)
	// Who gives a table a name that TABLE cannot hold holds nothing else up.
	s.Exec(t, `CREATE TABLE "log_{4}" (id INTEGER PRIMARY KEY)`)
	r := newReloading(t, s)
	r.shown(t, 0, "log_1 running 3", "log_2 running 4")
	s.Create(t, "log_3", 5)
	r.shown(t, 5, "log_1 running 3", "log_2 running 4", "log_3 running 5")
	r.published(t, "orders", 60)
	until(t, "the table with a bad name is named", func() any { return r.log }, func() bool {
		const why = "the table log_{4} matches log_* and is not published: TABLE cannot name it"
		return slices.ContainsFunc(r.Daemon().Status().Streams, func(s httpapi.StreamStatus) bool { return s.Reason == why }) && strings.Contains(r.log.String(), why)
	})

	s.Exec(t, "ALTER TABLE log_3 RENAME TO away")
	r.shown(t, 0, "log_1 running 3", "log_2 running 4", "log_3 gone 5")
	s.Exec(t, "INSERT INTO away (total) VALUES (1)")
	s.Exec(t, "ALTER TABLE away RENAME TO log_3")
	r.shown(t, 1, "log_1 running 3", "log_2 running 4", "log_3 running 6")

	s.Exec(t, "DROP TABLE log_3")
	r.shown(t, 0, "log_1 running 3", "log_2 running 4", "log_3 gone 6")
	s.Create(t, "log_3", 2)
	r.shown(t, 2, "log_1 running 3", "log_2 running 4", "log_3 running 2")

	// Without a counter the newest row tells: the table is lower, has no rows, or is the same one.
	for rows := range 3 {
		s.Exec(t, "DROP TABLE log_3")
		r.shown(t, 0, "log_1 running 3", "log_2 running 4", fmt.Sprint("log_3 gone ", 2+min(rows, 1)))
		s.Exec(t, "CREATE TABLE log_3 (id INTEGER PRIMARY KEY, total INT)")
		for range rows {
			s.Exec(t, "INSERT INTO log_3 (total) VALUES (2)")
		}
		r.shown(t, uint64(rows), "log_1 running 3", "log_2 running 4", fmt.Sprint("log_3 running ", rows))
		s.Exec(t, "INSERT INTO log_3 VALUES (3, 2)")
		r.shown(t, uint64(rows)+1, "log_1 running 3", "log_2 running 4", "log_3 running 3")
	}
	s.Exec(t, "ALTER TABLE log_3 RENAME TO away")
	r.shown(t, 0, "log_1 running 3", "log_2 running 4", "log_3 gone 3")
	s.Exec(t, "ALTER TABLE away RENAME TO log_3")
	r.shown(t, 0, "log_1 running 3", "log_2 running 4", "log_3 running 3")

	// Made again as it cannot be read it says so.
	s.Exec(t, "DROP TABLE log_3")
	r.shown(t, 0, "log_1 running 3", "log_2 running 4", "log_3 gone 3")
	s.Exec(t, "CREATE TABLE log_3 (id INTEGER NOT NULL, total INT)")
	until(t, "log_3 is unfit", func() any { return r.log }, func() bool {
		reasons := r.Daemon().Ready(t.Context())
		return len(reasons) == 1 && strings.Contains(reasons[0].Reason, "log_3 has no unique index")
	})
	s.Exec(t, "INSERT INTO log_3 VALUES (1, 2), (2, 2)")
	s.Exec(t, "CREATE UNIQUE INDEX ids ON log_3 (id)")
	r.shown(t, 2, "log_1 running 3", "log_2 running 4", "log_3 running 2")
	s.Exec(t, "DROP TABLE log_3")
	r.shown(t, 0, "log_1 running 3", "log_2 running 4", "log_3 gone 2")

	// One that is named is missed.
	s.Exec(t, "DROP TABLE log_1")
	missed(t, r, "log_1")
}

// missed waits until a table is all that keeps a process from being ready.
func missed(t *testing.T, r *reloading, table string) {
	t.Helper()
	until(t, table+" is missed", func() any { return r.log }, func() bool {
		reasons := r.Daemon().Ready(t.Context())
		return len(reasons) == 1 && reasons[0].Shard == table
	})
}

// TestATableThatIsFoundLetsStoppedStreamsBe: what has stopped stays so with what it has counted,
// the tables of its stream that come later have a limit that is used up, and a person's reload
// begins again.
func TestATableThatIsFoundLetsStoppedStreamsBe(t *testing.T) {
	findOften(t)
	s := apptest.NewShop(t)
	const tooLarge = "hex(zeroblob(5000000))"
	create := func(name, values string) {
		s.Exec(t, "CREATE TABLE "+name+" (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT)")
		s.Exec(t, "INSERT INTO "+name+" (text) VALUES "+values)
	}
	s.Env["BRIDGE_STREAMS"] = "orders,logs"
	s.Env["BRIDGE_STREAM_LOGS_TABLE"], s.Env["BRIDGE_STREAM_LOGS_KIND"] = "log_*", "release"
	s.Env["BRIDGE_STREAM_LOGS_DEAD_LETTER"], s.Env["BRIDGE_STREAM_LOGS_DEAD_LETTER_LIMIT"] = "eiffel.dead", "1"
	create("log_1", "('a'), ("+tooLarge+"), ("+tooLarge+"), ('b')")
	r := newReloading(t, s)
	of := func(stream, table string) (found shard.Status) {
		for _, one := range r.Daemon().Status().Streams {
			for _, sh := range one.Shards {
				if one.Name == stream && sh.Shard == table {
					found = sh
				}
			}
		}
		return found
	}
	is := func(table string, state shard.State) {
		t.Helper()
		until(t, table+" is "+string(state), func() any { return r.log }, func() bool { return of("logs", table).State == state })
	}
	is("log_1", shard.Stopped)
	r.published(t, "orders", 60)
	before, app := of("logs", "log_1"), r.now.Load()
	create("log_2", "('c')")
	is("log_2", shard.Running)
	create("log_3", "("+tooLarge+")")
	is("log_3", shard.Stopped)
	if r.now.Load() == app {
		t.Fatal("no other app runs")
	}
	after := of("logs", "log_1")
	if after.State != shard.Stopped || after.LastError != before.LastError || after.Cause != shard.CauseDeadLetterLimit || after.Position != before.Position ||
		after.DeadLetters.Count != 1 || after.Published.Rows != before.Published.Rows || before.Published.Rows == 0 {
		t.Errorf("%+v, was %+v", after, before)
	}
	if n := of("orders", "orders").Published.Rows; n != 60 {
		t.Errorf("orders has published %d rows", n)
	}
	if third := of("logs", "log_3"); third.Cause != shard.CauseDeadLetterLimit || third.DeadLetters.Count != 0 {
		t.Errorf("%+v", third)
	}
	s.Env["BRIDGE_STREAM_LOGS_DEAD_LETTER_LIMIT"] = "0"
	must.Get(r.Reload(t.Context()))(t)
	for _, table := range []string{"log_1", "log_2", "log_3"} {
		is(table, shard.Running)
	}
	until(t, "log_1 goes on with the row", func() any { return r.log }, func() bool {
		one := of("logs", "log_1")
		return one.DeadLetters.Count == 1 && one.Position == 4
	})
}

// TestTablesThatComeOneByOne: the app is not opened again for each, but at least a pause later.
func TestTablesThatComeOneByOne(t *testing.T) {
	findOften(t)
	lookEvery, missedEvery = 6*time.Second, 4*time.Second
	s := newLogs(t)
	r := newReloading(t, s)
	r.published(t, "orders", 60)
	var opened []time.Time
	const most = 400
	made := 0
	until(t, "the tables are found", func() any { return r.log }, func() bool {
		if a := r.now.Load(); len(opened) == 0 || opened[len(opened)-1] != a.started {
			opened = append(opened, a.started)
		}
		if made < most && len(opened) < 3 {
			made++
			s.Exec(t, fmt.Sprintf("CREATE TABLE log_%d (id INTEGER PRIMARY KEY)", made))
		}
		tables, _ := r.logs()
		return len(opened) >= 3 && len(tables) == made
	})
	// The first one is of the start.
	for i := 2; i < len(opened); i++ {
		if pause := opened[i].Sub(opened[i-1]); pause < missedEvery/2 {
			t.Errorf("app %d was opened %s after the one before it", i, pause)
		}
	}
}

// TestATableThatIsGoneAtALoss: what is known of a table that is gone outlives a rebuild of the
// progress, and the folder where the bus has its rows. Then the table that comes back is published
// behind these, and another one of its name from its first row.
func TestATableThatIsGoneAtALoss(t *testing.T) {
	rebuild := func(t *testing.T, path string) {
		kept := must.Get(OpenStore(t.Context(), path, slog.New(slog.DiscardHandler)))(t)
		image, err := kept.Load(t.Context())
		if err == nil {
			err = kept.Apply(t.Context(), stream.Rebuild(&image, "logs", time.Now()))
		}
		must.OK(t, errors.Join(err, kept.Close()))
	}
	remove := func(t *testing.T, path string) {
		must.OK(t, os.RemoveAll(path))
	}
	for name, lose := range map[string]func(t *testing.T, path string){"nothing": func(*testing.T, string) {}, "the progress": rebuild, "the folder": remove} {
		t.Run(name+" is lost", func(t *testing.T) {
			s := newLogs(t)
			s.Env["BRIDGE_SINK_URL"], s.Env["BRIDGE_STREAM_LOGS_START"] = "embedded://"+t.TempDir(), "latest"
			s.Create(t, "log_1", 7)
			r := newReloading(t, s)
			r.shown(t, 0, "log_1 running 7")
			s.Create(t, "log_2", 4)
			s.Create(t, "log_3", 5)
			r.shown(t, 9, "log_1 running 7", "log_2 running 4", "log_3 running 5")
			for _, gone := range []string{"DROP TABLE log_1", "ALTER TABLE log_2 RENAME TO away", "DROP TABLE log_3"} {
				s.Exec(t, gone)
			}
			r.shown(t, 0, "log_1 gone 7", "log_2 gone 4", "log_3 gone 5")
			r.end()
			path, _ := strings.CutPrefix(s.Env["BRIDGE_CHECKPOINT_URL"], "file:")
			lose(t, path)

			back := func() {
				s.Create(t, "log_1", 2)
				s.Exec(t, "INSERT INTO away (total) VALUES (1)")
				s.Exec(t, "ALTER TABLE away RENAME TO log_2")
				s.Create(t, "log_3", 3)
			}
			if name != "the folder" {
				back()
			}
			r = newReloading(t, s)
			r.published(t, "orders", 60)
			if name == "the folder" {
				until(t, "it says which are gone", func() any { return r.log }, func() bool { return strings.Count(r.log.String(), "a table is gone") == 2 })
				back()
			}
			r.shown(t, 6, "log_1 running 2", "log_2 running 5", "log_3 running 3")
		})
	}
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
		return len(reasons) == 1 && reasons[0].Stream == "logs" && strings.Contains(reasons[0].Reason, "log_*") &&
			string(r.Daemon().Status().Streams[0].Reason) == reasons[0].Reason && strings.Contains(r.log.String(), "a stream has no table")
	})
	const log = "CREATE TABLE log_1 (id INTEGER PRIMARY KEY AUTOINCREMENT, total INT NOT NULL UNIQUE)"
	s.Exec(t, log)
	s.Exec(t, "INSERT INTO log_1 (total) VALUES (1), (2)")
	r.shown(t, 2, "log_1 running 2")
	until(t, "it says that this is over", func() any { return r.log }, func() bool { return strings.Contains(r.log.String(), "has all tables that match") })
	if n := strings.Count(r.log.String(), `level=WARN msg="a stream has no table, or lacks one" stream=logs reason="no table matches log_*`); n != 1 {
		t.Errorf("it warns %d times", n)
	}

	// Its entities stay until a person agrees that they are deleted.
	s.Exec(t, "DROP TABLE log_1")
	until(t, "log_1 is gone", func() any { return r.log }, func() bool { got, _ := r.logs(); return slices.Equal(got, []string{"log_1 gone 2"}) })
	live := func() (n int) {
		entries := must.Get(r.disk.ByRow(t.Context(), store.Key{Stream: "logs", Shard: "log_1"}, 0, 9, nil))(t)
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
	must.Get(r.Daemon().Reconcile("logs", reconcile.Mode{AllowDeletes: true}))(t)
	until(t, "its entities are deleted", func() any { return r.log }, func() bool { return live() == 0 })

	// Once it is forgotten nothing is left of them: if it comes back they are Added as new ones.
	all := func() (n int) {
		for _, err := range r.disk.Scan(t.Context(), "logs") {
			must.OK(t, err)
			n++
		}
		return n
	}
	if n := all(); n != 2 {
		t.Errorf("%d entities are known before it is gone", n)
	}
	keptLeft = -time.Hour
	s.Exec(t, "DROP TABLE log_1")
	until(t, "its entities are forgotten", func() any { return r.log }, func() bool { return all() == 0 })
	s.Exec(t, log)
	s.Exec(t, "INSERT INTO log_1 (total) VALUES (1), (2)")
	r.shown(t, 2, "log_1 running 2")
}

// TestATableThatMovesToAnotherSource is another table where patterns of both match it, whose tables
// have the name of their source: it begins at its first row.
func TestATableThatMovesToAnotherSource(t *testing.T) {
	findOften(t)
	a, b := apptest.NewTwoShops(t)
	a.Create(t, "log_0", 0)
	a.Create(t, "log_1", 2)
	r := newReloading(t, a)
	r.shown(t, 2, "a/log_0 running 0", "a/log_1 running 2")
	a.Exec(t, "DROP TABLE log_1")
	r.shown(t, 0, "a/log_0 running 0", "a/log_1 gone 2")
	b.Create(t, "log_1", 2)
	r.shown(t, 2, "a/log_0 running 0", "a/log_1 gone 2", "b/log_1 running 2")
	if log := r.log.String(); !strings.Contains(log, "shard=b/log_1 pattern=b/log_* from_first=true") {
		t.Errorf("the log says otherwise: %s", log)
	}
}

// TestOnlyTheDatabasesThatAreAskedFor are asked for the tables of patterns.
func TestOnlyTheDatabasesThatAreAskedFor(t *testing.T) {
	a, b := apptest.NewTwoShops(t)
	a.Create(t, "log_1", 0)
	b.Create(t, "bill_1", 0)
	a.Env["BRIDGE_STREAMS"], a.Env["BRIDGE_STREAM_LOGS_TABLE"] = "orders,logs,bills", "a/log_*"
	a.Env["BRIDGE_STREAM_BILLS_TABLE"], a.Env["BRIDGE_STREAM_BILLS_KIND"] = "b/bill_*", "release"
	a.Env["BRIDGE_SOURCE_B_URL"] += ".away"
	cfg := load(t, a.Env)
	found, err := WithTables(t.Context(), cfg, "logs")
	if err != nil || fmt.Sprint(found.Stream("logs").Tables) != "[a/log_1]" {
		t.Errorf("%v, %v", found.Stream("logs").Tables, err)
	}
	if _, err := WithTables(t.Context(), cfg); err == nil {
		t.Error("a database that is away has listed its tables")
	}
}

// unlisted is a source that does not list its tables until its context ends.
type unlisted struct{ source.Source }

func (unlisted) Tables(ctx context.Context) (source.TableList, error) {
	<-ctx.Done()
	return source.TableList{}, context.Cause(ctx)
}

// TestAServerThatDoesNotListItsTables: those of the others are found, and it is told apart.
func TestAServerThatDoesNotListItsTables(t *testing.T) {
	a, _ := apptest.NewTwoShops(t)
	a.Create(t, "log_1", 0)
	all := openSources(t, load(t, a.Env))
	hangs := all.all[1]
	hangs.from = unlisted{hangs.from}
	notes := make(chan error, 2)
	lists, err := all.listTables(t.Context(), 300*time.Millisecond, func(_ *database, err error) { notes <- err })
	if err == nil || len(lists) != 1 || len(lists[all.all[0]].Names) == 0 {
		t.Errorf("%v: the lists are %v", err, lists)
	}
	if logged := errors.Join(<-notes, <-notes); logged == nil {
		t.Error("nobody is told of the one that hangs")
	}
}
