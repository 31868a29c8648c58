package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/shard"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

func past() time.Duration {
	if world.Soak {
		return 3 * time.Minute
	}
	return hotTime + hotTime/2
}

// steadily is a workload that goes on beside what a test does: a few rows a second for so long.
func steadily(length time.Duration) workload.Options {
	const rate = 20
	return workload.Options{Writers: 4, Rate: rate, Commits: int(rate * length.Seconds()), Mix: workload.Mix{Rollback: 0.05, MultiRow: 0.05}}
}

// TestATransactionThatStaysOpen holds rows for longer than the hot time and GAP_TTL.
func TestATransactionThatStaysOpen(t *testing.T) {
	testall.Beside(t)
	length := past()
	l := newRows(t, testenv.MariaDB(t), steadily(length+10*time.Second))
	late := tailBriefly(l, world.KafkaBus(testenv.Kafka(t)), "late", world.Env{"BRIDGE_GAP_TTL": "1m"})
	hold := tailBriefly(l, world.NATSBus(testenv.NATS(t)), "hold", world.Env{"BRIDGE_GAP_TTL": "1m", "BRIDGE_GAP_POLICY": "hold"})
	wait, _ := l.Write()
	world.Eventually(t, time.Minute, "first rows", func() bool { return late.Tape().Count() > 20 && hold.Tape().Count() > 20 })
	one := l.Begin("one", 1)
	many := l.Begin("many", 3000)
	first := one.FirstID()
	world.Eventually(t, time.Minute, "the transaction shows as in flight", func() bool { return late.Shard(world.Orders).Gaps.InFlight >= 3001 })
	world.Pause(length)
	if n := hold.above(first); n > 0 {
		t.Errorf("hold published %d rows behind an open transaction", n)
	}
	one.Commit()
	many.Commit()
	wait()
	late.complete(time.Minute)
	// What was rolled back at the end holds up the rows behind it for the hot time.
	hold.complete(hotTime + time.Minute)

	t.Run("comes when it commits, and nothing else waits under late", func(t *testing.T) {
		a := late.mustMatch(world.Expect{Steady: true})
		late.bounded("all", a.Delay(), 1, time.Second+slack)
		late.bounded("the open transactions' rows", a.Delays["late"], 1, slack)
		if a.Late() < 3001 {
			t.Errorf("%d late rows, want at least 3001", a.Late())
		}
	})
	t.Run("keeps everything behind it waiting under hold, then all come in strict order", func(t *testing.T) {
		if a := hold.mustMatch(world.Expect{Steady: true, Ascending: true}); a.Late() > 0 {
			t.Errorf("%d late rows under hold", a.Late())
		}
	})
}

// TestAStatementThatStalls reserves ids and waits for a lock before it inserts them, for longer
// than the hot time.
func TestAStatementThatStalls(t *testing.T) {
	testall.Beside(t)
	length := past()
	l := newRows(t, testenv.MariaDB(t), steadily(length+10*time.Second))
	d := tailBriefly(l, world.KafkaBus(testenv.Kafka(t)), "stalled", nil)
	wait, _ := l.Write()
	world.Eventually(t, time.Minute, "first rows", func() bool { return d.Tape().Count() > 20 })

	blocking := l.Open("INSERT INTO orders (entity, token, body) VALUES ('stalled-2', 'blocking', '')")
	stalled := must.Get(l.DB.Conn(t.Context()))(t)
	defer stalled.Close()
	const n = 400
	begun, done := time.Now(), make(chan error, 1)
	rows := world.NewRows("stalled", n)
	go func() {
		_, err := stalled.ExecContext(context.Background(), "SET SESSION innodb_lock_wait_timeout = 600; "+world.InsertStatement(rows))
		done <- err
	}()
	world.Eventually(t, length+30*time.Second, "ids of the statement are cold", func() bool {
		return time.Since(begun) > length && d.Shard(world.Orders).Gaps.Cold >= n-2
	})
	select {
	case err := <-done:
		t.Fatalf("the statement did not wait: %v", err)
	default:
	}
	released := time.Now()
	must.OK(t, blocking.Rollback())
	must.OK(t, <-done)
	l.RecordCommitted(rows, released)
	l.Rows.Enter(workload.Row{Table: world.Orders, Entity: "stalled-2", Token: "blocking", Outcome: workload.RolledBack, Begun: begun})
	wait()
	d.complete(sweepTime + time.Minute)
	a := d.mustMatch(world.Expect{Steady: true})
	d.bounded("all", a.Delay(), 1, sweepTime+time.Second+slack)
	if a.Late() < n {
		t.Errorf("%d late rows, want at least %d", a.Late(), n)
	}
	// The first row was inserted before the wait, and so in flight all the time.
	if at, ok := d.arrived("stalled-1"); !ok || at.Sub(released) > time.Second+slack+d.noiseOf(1) {
		t.Errorf("the row that was in flight came %s after the wait (%v)", at.Sub(released), ok)
	}
}

// TestARestartWithManyOpenIDs leaves every second id of 20,000 open and kills the program.
func TestARestartWithManyOpenIDs(t *testing.T) {
	testall.Beside(t)
	const open = 10_000
	l := newRows(t, testenv.MariaDB(t), workload.Options{})
	l.Fill("even", open, 2)
	started := time.Now()
	// What is not durable is read back from the bus, which does not tell since when an id is open.
	d := tailBriefly(l, world.NATSBus(testenv.NATS(t)), "restarted", world.Env{failpoint.SyncVariable: "1s"})
	gaps := func() shard.Gaps { return d.Shard(world.Orders).Gaps }
	known := func() bool { g := gaps(); return g.Hot+g.Cold == open && len(g.Oldest) > 0 }
	arrives(d.Publisher)
	world.Eventually(t, time.Minute, "all open ids known", known)
	// A restart may make gaps younger by as long as the last batch was on its way, never older.
	// Wait until they are old enough to tell an age that was kept from one that began again.
	publishing := time.Since(started)
	world.Pause(max(10*time.Second, 2*publishing))
	before := gaps()
	for range 3 {
		world.Pause(world.Between(0, 3*time.Second))
		d.Kill()
		d.Start()
		world.Eventually(t, time.Minute, "all open ids known again", known)
		for i, gap := range gaps().Oldest {
			was := before.Oldest[i]
			younger := gap.Missed.Sub(was.Missed)
			if gap.First != was.First || gap.Last != was.Last || younger < -time.Millisecond || younger > publishing+time.Second {
				t.Fatalf("gap %d-%d first missed %s became %d-%d first missed %s", was.First, was.Last, was.Missed, gap.First, gap.Last, gap.Missed)
			}
		}
	}
	for i, id := range []uint64{1, 777, open - 1, 2*open - 1} {
		rows, begun := world.NewRows(fmt.Sprintf("odd-%d", i), 1), time.Now()
		rows[0].ID = id
		l.Exec("INSERT INTO orders (id, entity, token, body) VALUES (?, ?, ?, '')", id, rows[0].Entity, rows[0].Token)
		l.RecordCommitted(rows, begun)
	}
	d.complete(sweepTime + time.Minute)
	if a := d.mustMatch(world.Expect{}); a.Late() != 4 {
		t.Errorf("%d late rows, want 4", a.Late())
	}
}

// TestABlipOfReadOnly makes the server read-only for a while, and then again and again for moments,
// while a transaction holds a row open that GAP_POLICY=hold waits for.
func TestABlipOfReadOnly(t *testing.T) {
	testall.Beside(t)
	server := testenv.StartMariaDB(t)
	l := newRows(t, server, steadily(15*time.Second))
	holds := world.Env{"BRIDGE_GAP_POLICY": "hold"}
	tailers := []*tailer{tailBriefly(l, world.KafkaBus(testenv.Kafka(t)), "kafka", holds), tailBriefly(l, world.NATSBus(testenv.NATS(t)), "nats", holds)}
	wait, _ := l.Write()
	inFlight := func(n uint64) func() bool {
		return func() bool {
			for _, d := range tailers {
				if d.Shard(world.Orders).Gaps.InFlight < n {
					return false
				}
			}
			return true
		}
	}
	for _, d := range tailers {
		world.Eventually(t, time.Minute, "first rows", func() bool { return d.Tape().Count() > 20 })
	}
	open := l.Begin("open", 3)
	world.Eventually(t, time.Minute, "the transaction shows as in flight", inFlight(3))
	first := open.FirstID()
	readOnly := func(value string) { t.Helper(); l.Exec("SET GLOBAL read_only = " + value) }
	readOnly("ON")
	for _, d := range tailers {
		world.Eventually(t, time.Minute, "evidence does not count", func() bool { return strings.Contains(d.Log.String(), "sees_uncommitted=false") })
	}
	readOnly("OFF")
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); {
		readOnly("ON")
		readOnly("OFF")
	}
	for _, d := range tailers {
		world.Eventually(t, time.Minute, "evidence counts again", func() bool {
			log := d.Log.String()
			return strings.LastIndex(log, "sees_uncommitted=true") > strings.LastIndex(log, "sees_uncommitted=false")
		})
	}
	world.Eventually(t, time.Minute, "the transaction shows as in flight after all", inFlight(3))
	world.Pause(hotTime + 2*time.Second)
	for _, d := range tailers {
		if n := d.above(first); n > 0 {
			t.Errorf("%s published %d rows behind an open transaction", d.Name, n)
		}
		t.Logf("%s: page and evidence differed %d times", d.Name, strings.Count(d.Log.String(), "read from different servers"))
	}
	open.Commit()
	wait()
	for _, d := range tailers {
		// What was rolled back at the end holds up the rows behind it for the hot time.
		d.complete(hotTime + time.Minute)
		if a := d.mustMatch(world.Expect{Steady: true, Ascending: true}); a.Late() > 0 {
			t.Errorf("%d late rows under hold", a.Late())
		}
	}
}

type updated struct {
	*world.World
	t          *testing.T
	publishers []*world.Publisher
}

// The programs look back for a second.
func newUpdated(t *testing.T, server *testenv.DatabaseServer, n int) *updated {
	t.Helper()
	u := &updated{World: world.Empty(t, server), t: t}
	u.Exec(`CREATE TABLE items (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL UNIQUE, v INT NOT NULL, deleted INT NOT NULL DEFAULT 0,
		modified DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified)) ENGINE=InnoDB`)
	for i := range n {
		u.Exec("INSERT INTO items (name, v) VALUES (?, 1)", fmt.Sprint("e", i+1))
	}
	for name, b := range map[string]*world.Bus{"kafka": world.KafkaBus(testenv.Kafka(t)), "nats": world.NATSBus(testenv.NATS(t))} {
		p := u.Publish(b, world.Publishing{
			Name: name, Path: world.Faulty(t), Follow: true,
			Env: world.Env{timesVariable: "look_back=1s", "BRIDGE_RECONCILE_INTERVAL": "1h"},
			Streams: []world.Stream{{Name: "items", Table: "items", Kind: "capability", Env: world.Env{
				"KEY": "name", "MODIFIED": "modified", "DELETED": "deleted",
			}}},
		})
		u.publishers = append(u.publishers, p)
		p.Start()
	}
	for _, p := range u.publishers {
		world.Eventually(t, time.Minute, "the rows are published on "+p.Name, func() bool { return p.Tape().Count() == n })
	}
	return u
}

// expect waits until both buses have said of each of these names what is wanted, "v=2" or
// "deleted", behind the first n messages, and nothing else.
func (u *updated) expect(n int, want map[string]string) {
	u.t.Helper()
	began := time.Now()
	for _, d := range u.publishers {
		world.Eventually(u.t, time.Minute, fmt.Sprintf("%v on %s", want, d.Name), func() bool { return d.Tape().Count() >= n+len(want) })
		// Two polls; what these machines add at worst is not bridge's.
		u.t.Logf("%s: within %s", d.Name, time.Since(began).Round(time.Millisecond))
		for _, m := range d.Tape().All()[n:] {
			said := "nothing of it"
			for name, text := range want {
				if strings.Contains(string(m.Value), fmt.Sprintf("%q", name)) {
					said = text
				}
			}
			if said == "deleted" && !strings.Contains(string(m.Value), "TOMBSTONE") || said != "deleted" && !strings.Contains(string(m.Value), said) {
				u.t.Errorf("%s: %s: want %s", d.Name, m.Value, said)
			}
			if got := m.Headers["bridge-origin"]; got != "modified" {
				u.t.Errorf("%s: origin %q of %s", d.Name, got, m.Value)
			}
		}
	}
}

// TestUpdatesThatCommitLate commits updates later after their MODIFIED than the programs look back.
func TestUpdatesThatCommitLate(t *testing.T) {
	testall.Beside(t)
	for name, server := range map[string]func(testing.TB) *testenv.DatabaseServer{"MariaDB": testenv.MariaDB, "MySQL": testenv.MySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testUpdatesThatCommitLate(t, server(t))
		})
	}
}

func testUpdatesThatCommitLate(t *testing.T, server *testenv.DatabaseServer) {
	const rows = 8
	u := newUpdated(t, server, rows)
	past := 3 * time.Second
	changed := u.Open("UPDATE items SET v = 2 WHERE name = 'e1'")
	deleted := u.Open("UPDATE items SET deleted = 1 WHERE name = 'e2'")
	doomed := u.Open("UPDATE items SET v = 9 WHERE name = 'e3'")
	many := u.Open("UPDATE items SET v = 3 WHERE name IN ('e6', 'e7', 'e8')")
	world.Pause(past)
	u.expect(rows, nil)
	must.OK(t, changed.Commit())
	u.expect(rows, map[string]string{"e1": `"v":2`})
	must.OK(t, deleted.Commit())
	u.expect(rows+1, map[string]string{"e2": "deleted"})
	must.OK(t, doomed.Rollback())
	must.OK(t, many.Commit())
	u.expect(rows+2, map[string]string{"e6": `"v":3`, "e7": `"v":3`, "e8": `"v":3`})

	// A statement that runs for longer than the look-back before it comes to its row, and one that
	// waits for the lock of its row.
	u.Exec("UPDATE items SET v = 4 + SLEEP(3) WHERE name = 'e4'")
	u.expect(rows+5, map[string]string{"e4": `"v":4`})
	holder := u.Open("SELECT * FROM items WHERE name = 'e5' FOR UPDATE")
	waited := make(chan error, 1)
	go func() {
		_, err := u.DB.Exec("UPDATE items SET v = 5 WHERE name = 'e5'")
		waited <- err
	}()
	world.Pause(past)
	must.OK(t, holder.Commit())
	must.OK(t, <-waited)
	u.expect(rows+6, map[string]string{"e5": `"v":5`})
	// What was rolled back is never said, and nothing of rows of which only MODIFIED has changed.
	u.Exec("UPDATE items SET modified = now(6)")
	world.Pause(time.Second)
	u.expect(rows+7, nil)
}
