package acceptance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.org/bridge/tests/world"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
)

// past returns a time beyond the hot time and GAP_TTL.
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

// TestStrides has several nodes interleave their ids; one of them is silent at first, for longer
// than the hot time.
func TestStrides(t *testing.T) {
	testall.Beside(t)
	silence := past()
	for _, nodes := range []int{3, 7} {
		t.Run(fmt.Sprintf("of %d", nodes), func(t *testing.T) {
			t.Parallel()
			server, order := testenv.MariaDB(t), "strided"
			if nodes == 3 {
				// The server tells.
				server, order = testenv.StartMariaDB(t, "--auto-increment-increment=3"), "auto"
			}
			opts := steadily(silence + 15*time.Second)
			opts.IDs, opts.Writers, opts.Seed = workload.Strides{Nodes: nodes, Silence: silence}, 2*nodes, uint64(nodes)
			l := newRows(t, server, opts)
			d := tailBriefly(l, world.NATSBus(testenv.NATS(t)), "strides", world.Env{"BRIDGE_ID_ORDER": order})
			l.Run()
			d.complete(sweepTime + time.Minute)
			a := d.mustMatch(world.Expect{Steady: true})
			d.bounded("all", a.Delay(), 1, sweepTime+time.Second+slack)
			if a.Late() == 0 {
				t.Error("no row was late: the test shows nothing")
			}
		})
	}
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

	blocking, err := l.DB.Begin()
	check(t, err)
	defer func() { _ = blocking.Rollback() }()
	if _, err := blocking.Exec("INSERT INTO orders (entity, token, body) VALUES ('stalled-2', 'blocking', '')"); err != nil {
		t.Fatal(err)
	}
	stalled, err := l.DB.Conn(t.Context())
	check(t, err)
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
	check(t, blocking.Rollback())
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	l.RecordCommitted(rows, released)
	l.Record(workload.Row{Table: world.Orders, Entity: "stalled-2", Token: "blocking", Outcome: workload.RolledBack, Begun: begun})
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
	d := tailBriefly(l, world.NATSBus(testenv.NATS(t)), "restarted", nil)
	gaps := func() world.GapsStatus { return d.Shard(world.Orders).Gaps }
	known := func() bool { g := gaps(); return g.Hot+g.Cold == open && len(g.Oldest) > 0 }
	d.Drained()
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
