package acceptance

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestTablesOfPatterns has tables that match a pattern come and go while rows are written and the
// program is killed at random: they are created, exchanged as migrations do, renamed away and back,
// dropped, and made again. Each row is there, with exactly-once once.
func TestTablesOfPatterns(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		t.Run("at-least-once", func(t *testing.T) { tablesOfPatterns(t, b) })
		t.Run("exactly-once", func(t *testing.T) { tablesOfPatterns(t, b.ExactlyOnce(t.Name())) })
	})
}

// logTables are the tables of a stream of logs, and what writes to them. Each row has a number of
// its own.
type logTables struct {
	t     *testing.T
	w     *world.World
	b     *world.Bus
	d     *world.Daemon
	topic string

	mu     sync.Mutex
	tables []string
	rows   int
}

const logColumns = " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, v int NOT NULL) "

// insert adds rows to a table. l.mu is held.
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

// write writes to all tables until stop is called.
func (l *logTables) write() (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
			l.change(func() {
				for _, table := range l.tables {
					l.insert(table, 3)
				}
			})
		}
	}()
	return func() { close(end); <-done }
}

// kills kills the program a few times.
func (l *logTables) kills(n int) {
	for range n {
		world.Pause(world.Between(0, 2*time.Second))
		l.d.Kill()
		l.d.Start()
	}
}

// is waits until a table has a state, and kills the program meanwhile.
func (l *logTables) is(table, state string) {
	l.t.Helper()
	l.kills(2)
	world.Eventually(l.t, 2*time.Minute, table+" is "+state, func() bool {
		for _, s := range l.d.Shards("logs") {
			if s.Shard == table {
				return s.State == state
			}
		}
		return false
	})
}

// published returns how often each row is there.
func (l *logTables) published() map[int]int {
	times, ids := make(map[int]int), make(map[string]int)
	l.b.Read(l.t, l.topic, func(m world.Message) {
		e, err := world.DecodeEvent(m)
		if err != nil {
			l.t.Fatal(err)
		}
		v, err := strconv.Atoi(string(e.Data["v"]))
		if err != nil {
			l.t.Fatalf("%s: %v", e.Data, err)
		}
		if before, known := ids[e.ID]; known && before != v {
			l.t.Errorf("the event %s is of the rows %d and %d", e.ID, before, v)
		}
		ids[e.ID] = v
		times[v]++
	})
	return times
}

// arrive waits until all rows are there, so that a table can be dropped.
func (l *logTables) arrive() {
	l.t.Helper()
	rows := 0
	l.change(func() { rows = l.rows })
	world.Eventually(l.t, 2*time.Minute, fmt.Sprintf("%d rows are there", rows), func() bool {
		times := l.published()
		for v := 1; v <= rows; v++ {
			if times[v] == 0 {
				return false
			}
		}
		return true
	})
}

func tablesOfPatterns(t *testing.T, b *world.Bus) {
	w := world.Empty(t, testenv.MariaDB(t))
	l := &logTables{t: t, w: w, b: b, topic: w.Name + "_logs"}
	l.create("log_1", 5)
	l.d = world.NewDaemon(t, world.Binary(t, false), b.Env().With(world.Env{
		"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "logs", "BRIDGE_POLL_INTERVAL": "50ms", "BRIDGE_STREAM_LOGS_START": "beginning",
		"BRIDGE_STREAM_LOGS_TABLE": w.Name + ".log_*", "BRIDGE_STREAM_LOGS_KIND": "release", "BRIDGE_STREAM_LOGS_DESTINATION": b.Open(t, l.topic),
	}))
	l.d.Start()
	world.AwaitReady(t, l.d)
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
	world.AwaitReady(t, l.d)
	// One that grows past the former one before it is found is not told apart from that.
	l.create(table, 10)
	l.leave()
	l.is(name(table), "running")
	l.change(func() { l.insert(table, 100) })
	stop()
	l.arrive()
	for v, n := range l.published() {
		if b.Once() && n > 1 {
			t.Errorf("the row %d is there %d times", v, n)
		}
	}
	if _, out, _ := world.Command(t, l.d.Env, "check"); !strings.Contains(out, "matches 3 tables") {
		t.Errorf("bridge check says %s", out)
	}
}
