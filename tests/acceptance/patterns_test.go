package acceptance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestTablesOfPatterns has tables that match a pattern come and go while rows are written and the
// program is killed at random: they are created, exchanged as migrations do, renamed away and back,
// dropped, and made again. Each row is there, with exactly-once once.
func TestTablesOfPatterns(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, tablesOfPatterns)
}

// logTables are the tables of a stream of logs, and what writes to them. Each row has a number of
// its own.
type logTables struct {
	t     *testing.T
	w     *world.World
	b     *world.Bus
	topic string
	// members are the processes of a group, which lose their folders, or the one there is.
	members []*world.Daemon

	mu     sync.Mutex
	tables []string
	// rows is how many there are; the first before of them are not published.
	rows, before int
}

const logColumns = " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, v int NOT NULL) "

// l.mu is held.
func (l *logTables) insert(table string, n int) {
	values := make([]string, n)
	for i := range values {
		l.rows++
		values[i] = fmt.Sprintf("(%d)", l.rows)
	}
	l.w.Exec("INSERT INTO " + table + " (v) VALUES " + strings.Join(values, ", "))
}

// change calls do while nobody writes.
func (l *logTables) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

func (l *logTables) create(table string, rows int) {
	l.change(func() {
		l.w.Exec("CREATE TABLE " + table + logColumns)
		l.insert(table, rows)
		l.tables = append(l.tables, table)
	})
}

// leave has nobody write to the table that was made last.
func (l *logTables) leave() (table string) {
	l.change(func() {
		table = l.tables[len(l.tables)-1]
		l.tables = l.tables[:len(l.tables)-1]
	})
	return table
}

func (l *logTables) write() (stop func()) {
	return every(40*time.Millisecond, func() {
		l.change(func() {
			for _, table := range l.tables {
				l.insert(table, 3)
			}
		})
	})
}

// kills kills a process a few times, each with what it has in its folder where that is not all.
func (l *logTables) kills(n int) {
	for range n {
		world.Pause(world.Between(0, 2*time.Second))
		i := rand.IntN(len(l.members))
		l.members[i].Kill()
		if len(l.members) > 1 {
			l.members[i].LoseCheckpoint()
		}
		l.members[i].Start()
	}
}

func (l *logTables) is(table, state string) {
	l.t.Helper()
	l.kills(2)
	world.Eventually(l.t, 2*time.Minute, table+" is "+state, func() bool {
		return slices.ContainsFunc(l.members, func(d *world.Daemon) bool {
			for _, s := range d.Shards("logs") {
				if s.Shard == table && string(s.State) == state {
					return true
				}
			}
			return false
		})
	})
}

func (l *logTables) published() map[int]int { return numbers(l.t, l.b, l.topic, nil) }

// once looks for rows that are there twice, and for those that are not to be there.
func (l *logTables) once() {
	for v, n := range l.published() {
		if v <= l.before || l.b.Once() && n > 1 {
			l.t.Errorf("the row %d is there %d times", v, n)
		}
	}
}

// arrive waits until all rows are there, so that a table can be dropped.
func (l *logTables) arrive() {
	l.t.Helper()
	rows := 0
	l.change(func() { rows = l.rows })
	world.Eventually(l.t, 2*time.Minute, fmt.Sprintf("%d rows are there", rows), func() bool {
		times := l.published()
		for v := l.before + 1; v <= rows; v++ {
			if times[v] == 0 {
				return false
			}
		}
		return true
	})
}

func newLogTables(t *testing.T, b *world.Bus) *logTables {
	w := world.Empty(t, testenv.MariaDB(t))
	l := &logTables{t: t, w: w, b: b, topic: w.Name + "_logs"}
	l.create("log_1", 5)
	return l
}

func (l *logTables) publish(env world.Env) {
	d := world.NewDaemon(l.t, world.Binary(l.t, false), l.b.Env().With(world.Env{
		"BRIDGE_SOURCE_URL": l.w.URL, "BRIDGE_STREAMS": "logs", "BRIDGE_POLL_INTERVAL": "50ms",
		"BRIDGE_STREAM_LOGS_TABLE": l.w.Name + ".log_*", "BRIDGE_STREAM_LOGS_KIND": "release", "BRIDGE_STREAM_LOGS_DESTINATION": l.b.Open(l.t, l.topic),
	}).With(env))
	l.members = append(l.members, d)
	d.Start()
}

func tablesOfPatterns(t *testing.T, b *world.Bus) {
	l := newLogTables(t, b)
	w := l.w
	l.publish(world.Env{"BRIDGE_STREAM_LOGS_START": "beginning"})
	world.AwaitReady(t, l.members[0])
	name := func(table string) string { return w.Name + "." + table }
	stop := l.write()
	for i := 2; i <= 3; i++ {
		l.create(fmt.Sprintf("log_%d", i), 50)
		l.is(name(fmt.Sprintf("log_%d", i)), "running")
	}
	l.change(func() {
		w.Exec("CREATE TABLE _log_2_new LIKE log_2")
		w.Exec("INSERT INTO _log_2_new SELECT * FROM log_2")
		w.Exec("RENAME TABLE log_2 TO _log_2_old, _log_2_new TO log_2")
	})
	l.kills(1)

	table := l.leave()
	w.Exec("RENAME TABLE " + table + " TO away")
	l.is(name(table), "gone")
	l.change(func() { l.insert("away", 3) })
	w.Exec("RENAME TABLE away TO " + table)
	l.is(name(table), "running")
	l.arrive()
	w.Exec("DROP TABLE " + table)
	l.is(name(table), "gone")
	world.AwaitReady(t, l.members[0])
	// One that grows past the former one before it is found is not told apart from that.
	l.create(table, 10)
	l.leave()
	l.is(name(table), "running")
	l.change(func() { l.insert(table, 100) })
	stop()
	l.arrive()
	l.once()
	if _, out, _ := world.Command(t, l.members[0].Env, "check"); !strings.Contains(out, "matches 3 tables") {
		t.Errorf("bridge check says %s", out)
	}
}

// TestTablesOfPatternsInAGroup has tables of a pattern be created and dropped while processes of a
// standby group are killed and lose their folders: the next one knows from the bus which tables
// were there.
func TestTablesOfPatternsInAGroup(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, bus *world.Bus) {
		l := newLogTables(t, bus.ExactlyOnce(t.Name()))
		l.before = l.rows
		progress := progressOnBus(t, l.b)
		for range 2 {
			l.publish(progress.With(ownFolder(t)).With(world.Env{
				"BRIDGE_STREAM_LOGS_START": "latest", "BRIDGE_STANDBY": "logs", "BRIDGE_STANDBY_TIMEOUT": shortTimeout.String(),
			}))
		}
		name := func(table string) string { return l.w.Name + "." + table }
		world.Eventually(t, time.Minute, "log_1 is running", func() bool {
			return slices.ContainsFunc(l.members, func(d *world.Daemon) bool { return d.Shard("logs").State == "running" })
		})
		stop := l.write()
		for i := 2; i <= 4; i++ {
			l.create(fmt.Sprintf("log_%d", i), 50)
			l.is(name(fmt.Sprintf("log_%d", i)), "running")
		}
		table := l.leave()
		l.arrive()
		l.w.Exec("DROP TABLE " + table)
		l.is(name(table), "gone")
		stop()
		l.arrive()
		l.once()
	})
}

type entityTables struct {
	t     *testing.T
	w     *world.World
	b     *world.Bus
	d     *world.Daemon
	topic string
	last  int
}

// TestEntitiesOfPatterns has entities move to tables that are created meanwhile, while the program
// is killed and reloads its configuration, and resets the stream in the end: the last event of each
// entity is its row.
func TestEntitiesOfPatterns(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		w := world.Empty(t, testenv.MariaDB(t))
		e := &entityTables{t: t, w: w, b: b, topic: w.Name + "_ent"}
		e.create(100)
		e.d = world.NewDaemon(t, world.Binary(t, false), b.Env().With(world.Env{
			"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "ent", "BRIDGE_POLL_INTERVAL": "50ms", "BRIDGE_STREAM_ENT_TABLE": w.Name + ".ent_*",
			"BRIDGE_STREAM_ENT_KIND": "capability", "BRIDGE_STREAM_ENT_KEY": "k", "BRIDGE_STREAM_ENT_DESTINATION": b.Open(t, e.topic),
		}))
		e.d.Start()
		world.AwaitReady(t, e.d)
		for i := range 3 {
			former := e.name()
			e.create(20)
			e.move(former, i)
			world.Pause(world.Between(0, time.Second))
			if i == 1 {
				e.d.Signal(syscall.SIGHUP)
			} else {
				e.d.Kill()
				e.d.Start()
			}
			e.run()
			e.same()
		}
		e.d.Ends()
		if said := types(t, e.d.Env, 0, "checkpoint", "reset", "ent"); !strings.Contains(said, "4 shards") {
			t.Fatal(said)
		}
		// Of those that are there when it begins START decides.
		e.create(5)
		e.d.Start()
		e.run()
		e.same()
		world.Eventually(t, time.Minute, "all 165 entities are published again", func() bool { return e.d.Metric("bridge_records_total") == 165 })
		e.create(5)
		e.run()
		e.same()
	})
}

func (e *entityTables) name() string { return fmt.Sprintf("ent_%d", e.last) }

func (e *entityTables) create(entities int) {
	e.last++
	e.w.Exec("CREATE TABLE " + e.name() + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, k int NOT NULL UNIQUE, v int NOT NULL)")
	var values []string
	for i := range entities {
		values = append(values, fmt.Sprintf("(%d, %d)", e.last*1000+i, i))
	}
	e.w.Exec("INSERT INTO " + e.name() + " (k, v) VALUES " + strings.Join(values, ", "))
}

// move moves a third of the entities to the table that was made last, with other values.
func (e *entityTables) move(former string, third int) {
	e.t.Helper()
	of := fmt.Sprintf("FROM %s WHERE k %% 3 = %d", former, third)
	must.OK(e.t, e.w.Open("INSERT INTO "+e.name()+" (k, v) SELECT k, v + 1000 "+of, "DELETE "+of).Commit())
}

func (e *entityTables) run() {
	e.t.Helper()
	world.Eventually(e.t, 2*time.Minute, fmt.Sprintf("%d tables run", e.last), func() bool {
		shards := e.d.Shards("ent")
		for _, s := range shards {
			if s.State != "running" {
				return false
			}
		}
		return len(shards) == e.last
	})
}

func (e *entityTables) same() {
	e.t.Helper()
	rows := make(map[string]string)
	for i := range e.last {
		maps.Copy(rows, e.w.Pairs(fmt.Sprintf("SELECT k, v FROM ent_%d", i+1)))
	}
	world.Until(e.t, time.Minute, fmt.Sprintf("the bus has %d entities", len(rows)), func() any {
		last, _ := fold(e.t, e.b, e.topic, func(e world.Event) (string, string) { return member(e, "k"), member(e, "v") })
		return otherwise(last, rows)
	})
}
