package acceptance

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// hotTime is how long vacant ids are hot with the defaults of MariaDB, and the least GAP_TTL that can be set; past it is a time that
// lies beyond both.
const (
	hotTime   = time.Minute
	sweepTime = time.Minute
)

func past() time.Duration {
	if soak {
		return 3 * time.Minute
	}
	return hotTime + 12*time.Second
}

// steadily is a workload that goes on beside what a test does: a few rows a second for so long.
func steadily(length time.Duration) workload.Options {
	const rate = 20
	return workload.Options{Writers: 4, Rate: rate, Commits: int(rate * length.Seconds()), Mix: workload.Mix{Rollback: 0.05, MultiRow: 0.05}}
}

// transaction is one that the test holds open itself.
type transaction struct {
	load *load
	tx   *sql.Tx
	rows []workload.Row
}

// open inserts n rows in one statement and leaves the transaction open.
func (l *load) open(name string, n int) *transaction {
	l.t.Helper()
	// The transaction ends by Commit, not with a context.
	tx, err := l.db.BeginTx(context.Background(), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = tx.Rollback() })
	t := &transaction{load: l, tx: tx}
	begun := time.Now()
	if _, err = tx.Exec("INSERT INTO orders (entity, token, body) VALUES " + values(name, n)); err != nil {
		l.t.Fatal(err)
	}
	for i := range n {
		token := fmt.Sprintf("%s-%d", name, i+1)
		t.rows = append(t.rows, workload.Row{Table: stream, Entity: token, Token: token, Version: 1, Fate: workload.Open, Begun: begun})
	}
	return t
}

// commit commits and enters the rows.
func (t *transaction) commit() {
	t.load.t.Helper()
	begun := time.Now()
	if err := t.tx.Commit(); err != nil {
		t.load.t.Fatal(err)
	}
	for i := range t.rows {
		t.rows[i].Fate, t.rows[i].CommitBegun, t.rows[i].CommitEnded = workload.Committed, begun, time.Now()
	}
	t.load.add(t.rows...)
}

// TestATransactionThatStaysOpen holds rows for longer than the hot time and GAP_TTL.
func TestATransactionThatStaysOpen(t *testing.T) {
	t.Parallel()
	length := past()
	l := newLoad(t, testenv.MariaDB(t), steadily(length+10*time.Second))
	late := l.tail(kafkaBus{testenv.Kafka(t)}, "late", env{"BRIDGE_GAP_TTL": "1m"})
	hold := l.tail(natsBus{testenv.NATS(t)}, "hold", env{"BRIDGE_GAP_TTL": "1m", "BRIDGE_GAP_POLICY": "hold"})
	wait := l.start()
	eventually(t, 30*time.Second, "first rows", func() bool { return late.tape.count() > 20 && hold.tape.count() > 20 })
	one := l.open("one", 1)
	many := l.open("many", 3000)
	pause(5 * time.Second)
	waiting := hold.tape.count()
	eventually(t, length, "the transaction shows as in flight", func() bool {
		shards := late.shards(stream)
		return len(shards) == 1 && shards[0].Gaps.InFlight == 3001
	})
	pause(length - 5*time.Second)
	if got := hold.tape.count(); got != waiting {
		t.Errorf("hold published %d rows behind an open transaction", got-waiting)
	}
	one.commit()
	many.commit()
	wait()
	late.complete(time.Minute)
	// What was rolled back at the end holds up the rows behind it for the hot time.
	hold.complete(hotTime + 30*time.Second)

	t.Run("comes when it commits, and nothing else waits under late", func(t *testing.T) {
		a := late.judge(expectations{steady: true})
		late.bounded("all", a.delay, 1, time.Second+2*patience)
		late.bounded("the open transactions' rows", a.lateDelay, 1, patience)
		if a.late < 3001 {
			t.Errorf("%d late records, want at least 3001", a.late)
		}
	})
	t.Run("keeps everything behind it waiting under hold, then all come in strict order", func(t *testing.T) {
		if a := hold.judge(expectations{steady: true, ascending: true}); a.late > 0 {
			t.Errorf("%d late records under hold", a.late)
		}
	})
}

// TestStrides has several nodes interleave their ids; one of them is silent at first, for longer than the hot time.
func TestStrides(t *testing.T) {
	t.Parallel()
	silence := hotTime + 12*time.Second
	if soak {
		silence = 2 * time.Minute
	}
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
			l := newLoad(t, server, opts)
			d := l.tail(natsBus{testenv.NATS(t)}, "strides", env{"BRIDGE_ID_ORDER": order})
			l.start()()
			d.complete(sweepTime + 30*time.Second)
			a := d.judge(expectations{steady: true})
			d.bounded("all", a.delay, 1, sweepTime+time.Second+patience)
			if a.late == 0 {
				t.Error("no record was late: the test shows nothing")
			}
		})
	}
}

// TestAStatementThatStalls reserves ids and waits for a lock before it inserts them, for longer than the hot time.
func TestAStatementThatStalls(t *testing.T) {
	t.Parallel()
	length := past()
	l := newLoad(t, testenv.MariaDB(t), steadily(length+10*time.Second))
	d := l.tail(kafkaBus{testenv.Kafka(t)}, "stalled", nil)
	wait := l.start()
	eventually(t, 30*time.Second, "first rows", func() bool { return d.tape.count() > 20 })

	blocking, err := l.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blocking.Rollback() }()
	if _, err := blocking.Exec("INSERT INTO orders (entity, token, body) VALUES ('stalled-2', 'blocking', '')"); err != nil {
		t.Fatal(err)
	}
	stalled, err := l.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close()
	const n = 400
	begun, done := time.Now(), make(chan error, 1)
	go func() {
		_, err := stalled.ExecContext(context.Background(), "SET SESSION innodb_lock_wait_timeout = 600; INSERT INTO orders (entity, token, body) VALUES "+values("stalled", n))
		done <- err
	}()
	eventually(t, length+30*time.Second, "ids of the statement are cold", func() bool {
		shards := d.shards(stream)
		return time.Since(begun) > length && len(shards) == 1 && shards[0].Gaps.Cold >= n-2
	})
	select {
	case err := <-done:
		t.Fatalf("the statement did not wait: %v", err)
	default:
	}
	released := time.Now()
	if err := blocking.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i := range n {
		token := fmt.Sprintf("stalled-%d", i+1)
		l.add(workload.Row{
			Table: stream, Entity: token, Token: token, Version: 1, Fate: workload.Committed, Begun: begun, CommitBegun: released, CommitEnded: time.Now(),
		})
	}
	l.add(workload.Row{Table: stream, Entity: "stalled-2", Token: "blocking", Fate: workload.RolledBack, Begun: begun})
	wait()
	d.complete(sweepTime + 30*time.Second)
	a := d.judge(expectations{steady: true})
	d.bounded("all", a.delay, 1, sweepTime+time.Second+patience)
	if a.late < n {
		t.Errorf("%d late records, want at least %d", a.late, n)
	}
	// The first row was inserted before the wait, and so in flight all the time.
	if at, ok := d.has("stalled-1"); !ok || at.Sub(released) > time.Second+patience+d.slack(1) {
		t.Errorf("the row that was in flight came %s after the wait (%v)", at.Sub(released), ok)
	}
}

// values returns n rows for an INSERT, entity and token alike.
func values(name string, n int) string {
	var b []byte
	for i := range n {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "('%[1]s-%[2]d', '%[1]s-%[2]d', '')", name, i+1)
	}
	return string(b)
}

// TestARestartWithManyOpenIDs leaves every second id of 200,000 open and kills the program.
func TestARestartWithManyOpenIDs(t *testing.T) {
	t.Parallel()
	const open = 100_000
	l := newLoad(t, testenv.MariaDB(t), workload.Options{})
	fill := fmt.Sprintf("INSERT INTO orders (id, entity, token, body, created) SELECT 2*seq, concat('even-', seq), concat('even-', seq), '', now() - interval 1 hour FROM seq_1_to_%d", open)
	begun := time.Now()
	if _, err := l.db.Exec(fill); err != nil {
		t.Fatal(err)
	}
	for i := range open {
		token := fmt.Sprintf("even-%d", i+1)
		l.add(workload.Row{Table: stream, ID: uint64(2 * (i + 1)), Entity: token, Token: token, Version: 1, Fate: workload.Committed, Begun: begun, CommitBegun: begun, CommitEnded: time.Now()})
	}
	started := time.Now()
	d := l.tail(natsBus{testenv.NATS(t)}, "restarted", nil)
	gaps := func() gapsStatus {
		if shards := d.shards(stream); len(shards) == 1 {
			return shards[0].Gaps
		}
		return gapsStatus{}
	}
	known := func() bool { g := gaps(); return g.Hot+g.Cold == open && len(g.Oldest) > 0 }
	d.drained()
	eventually(t, 30*time.Second, "all open ids known", known)
	// A restart may make gaps younger by as long as the last batch was on its way, never older. Wait until they are old enough to
	// tell an age that was kept from one that began anew.
	publishing := time.Since(started)
	pause(max(10*time.Second, 2*publishing))
	before := gaps()
	for range 3 {
		pause(rangeOf(0, 3*time.Second))
		d.kill()
		d.start()
		eventually(t, 30*time.Second, "all open ids known again", known)
		for i, gap := range gaps().Oldest {
			was := before.Oldest[i]
			younger := gap.Missed.Sub(was.Missed)
			if gap.First != was.First || gap.Last != was.Last || younger < -time.Millisecond || younger > publishing+time.Second {
				t.Fatalf("gap %d-%d first missed %s became %d-%d first missed %s", was.First, was.Last, was.Missed, gap.First, gap.Last, gap.Missed)
			}
		}
	}
	for i, id := range []uint64{1, 777, open - 1, 2*open - 1} {
		token := fmt.Sprintf("odd-%d", i)
		begun := time.Now()
		if _, err := l.db.Exec("INSERT INTO orders (id, entity, token, body) VALUES (?, ?, ?, '')", id, token, token); err != nil {
			t.Fatal(err)
		}
		l.add(workload.Row{Table: stream, ID: id, Entity: token, Token: token, Version: 1, Fate: workload.Committed, Begun: begun, CommitBegun: begun, CommitEnded: time.Now()})
	}
	d.complete(sweepTime + 30*time.Second)
	if a := d.judge(expectations{}); a.late != 4 {
		t.Errorf("%d late records, want 4", a.late)
	}
}
