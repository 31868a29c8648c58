package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// slack is what may come on top of a bound that is counted in polls. These machines are noisy, and
// the program may be held where the noise is not measured: what should take two polls may take this
// and the noise of the time. That is less than a sweep; the log has the exact figures.
const slack = 50 * world.PollInterval

// tailer is a bridge that publishes a world, with a consumer beside it and a measurement of noise.
type tailer struct {
	*world.Publisher
	noise *noise
}

func tail(w *world.World, b *world.Bus, name, path string, more world.Env) *tailer {
	w.T.Helper()
	d := &tailer{Publisher: w.Publish(b, world.Publishing{Name: name, Env: more, Path: path, Follow: true})}
	d.noise = measureNoise(w, b, d.Destination("noise"))
	d.Start()
	return d
}

func plainTail(w *world.World, b *world.Bus, name string, more world.Env) *tailer {
	w.T.Helper()
	return tail(w, b, name, world.Binary(w.T, false), more)
}

func (d *tailer) above(id uint64) (n int) {
	d.T.Helper()
	for _, m := range d.Tape().All() {
		e := decode(d.T, m)
		if e.RowID > id {
			n++
		}
	}
	return n
}

func (d *tailer) arrived(token string) (at time.Time, ok bool) {
	for _, m := range d.Tape().All() {
		if strings.Contains(string(m.Value), fmt.Sprintf("%q", token)) {
			return m.At, true
		}
	}
	return time.Time{}, false
}

// complete waits until the consumer has all that must be there at the end. limit is ample on a
// machine that does nothing else; what is then missing a judge reports. Writers have ended.
func (d *tailer) complete(limit time.Duration) {
	d.T.Helper()
	read, tokens := 0, make(map[string]bool)
	complete := func() bool {
		for _, m := range d.Tape().From(read) {
			read++
			var token string
			if e, err := world.DecodeEvent(m); err == nil && json.Unmarshal(e.Data["token"], &token) == nil {
				tokens[token] = true
			}
		}
		return !slices.ContainsFunc(d.World.Rows.Rows(), func(row workload.Row) bool {
			return row.Outcome == workload.Committed && row.GoneFrom.IsZero() && !tokens[row.Token]
		})
	}
	for deadline := time.Now().Add(4 * limit); time.Now().Before(deadline) && !complete(); {
		world.Pause(500 * time.Millisecond)
	}
}

func (d *tailer) mustMatch(expect world.Expect) *world.Verdict {
	d.T.Helper()
	d.T.Logf("%s: noise %s", d.Name, world.FormatDelays(d.noise.ascending()))
	return d.MustMatch(world.Orders, expect)
}

// bounded fails the test when a part of delays lies above a bound and what noise may add.
func (d *tailer) bounded(what string, delays []time.Duration, part float64, bound time.Duration) {
	d.T.Helper()
	bound += d.noiseOf(part)
	if got := world.Percentile(delays, part); got > bound {
		d.T.Errorf("%s: %s: p%.0f is %s, want at most %s", d.Name, what, part*100, got, bound)
	}
}

// noiseOf is what noise may add to a part of delays: twice what it was for that part, or at worst
// where the slowest are asked for, since a few late rows may all fall into the worst moment.
func (d *tailer) noiseOf(part float64) time.Duration {
	if part > 0.9 {
		part = 1
	}
	return 2 * world.Percentile(d.noise.ascending(), part)
}

// noise measures how long a commit and a publish take on this machine without bridge, over and
// over, beside a test that judges delays: what the machine, the database or the bus adds is not
// bridge's.
type noise struct {
	mu     sync.Mutex
	delays []time.Duration
}

// measureNoise commits to the database and publishes to b until the test ends. A measurement that
// takes longer than the time to the next one makes that one late, which counts, as for rows.
func measureNoise(w *world.World, b *world.Bus, destination string) *noise {
	w.T.Helper()
	w.Exec("CREATE TABLE IF NOT EXISTS noise (id integer PRIMARY KEY, n integer)")
	b.Open(w.T, destination)
	publish := b.Publisher(w.T, destination)
	n := new(noise)
	ctx, cancel := context.WithCancel(context.Background())
	var measuring sync.WaitGroup
	measuring.Go(func() {
		for due := time.Now(); ; due = due.Add(100 * time.Millisecond) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(due)):
			}
			// An error is noise as well: how long it took counts.
			_, _ = w.DB.ExecContext(ctx, "REPLACE INTO noise (id, n) VALUES (1, 1)")
			_ = publish(ctx, world.Message{Value: []byte("noise"), Headers: map[string]string{"eiffel-type": "noise"}})
			n.mu.Lock()
			n.delays = append(n.delays, time.Since(due))
			n.mu.Unlock()
		}
	})
	w.T.Cleanup(func() { cancel(); measuring.Wait() })
	return n
}

func (n *noise) ascending() []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.delays))
}

// unruly is the workload that the ledger exists for: one transaction in a hundred stays open for up
// to 8 s, in the soak for up to 20 s.
func unruly() workload.Options {
	commits, rate, long := 4000, 250.0, 8*time.Second
	if world.Soak {
		commits, rate, long = 200_000, 500, 20*time.Second
	}
	return workload.Options{
		Writers: 32, Commits: commits, Rate: rate, Hold: workload.Hold{Short: 5 * time.Millisecond, Long: long, LongShare: 0.01},
		Mix: workload.Mix{Rollback: 0.02, Burn: 0.01, MultiRow: 0.03, InsertSelect: 0.01, Replace: 0.05, Delete: 0.01},
	}
}

// TestTransactionsOfAnyLength has one workload tailed by three programs at the same time.
func TestTransactionsOfAnyLength(t *testing.T) {
	testall.Beside(t)
	occupy(t)
	kafka, nats := world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))
	l := newRows(t, testenv.MariaDB(t), unruly())
	atOnce := plainTail(l, kafka, "at_once", world.Env{"BRIDGE_STABILITY_WINDOW": "0s"})
	windowed := plainTail(l, nats, "windowed", nil)
	// On Kafka, since JetStream drops repeats. Without CREATED the time of an event is a clock's,
	// and a repeat must have the same one still.
	killed := plainTail(l, kafka, "killed", world.Env{"BRIDGE_STABILITY_WINDOW": "200ms", "BRIDGE_STREAM_ORDERS_CREATED": ""})
	wait, _ := l.Write()
	written := make(chan struct{})
	go func() { defer close(written); wait() }()
	for ended := false; !ended; {
		// One that is killed while it starts, however long that takes, publishes nothing.
		world.AwaitReady(t, killed.Daemon)
		select {
		case <-written:
			ended = true
		case <-time.After(world.Between(2*time.Second, 5*time.Second)):
			killed.Kill()
			killed.Start()
		}
	}
	for _, d := range []*tailer{atOnce, windowed, killed} {
		d.complete(time.Minute)
	}

	t.Run("arrive at once without a window", func(t *testing.T) {
		a := atOnce.mustMatch(world.Expect{Steady: true})
		atOnce.bounded("all", a.Delay(), 0.5, slack/2)
		atOnce.bounded("all", a.Delay(), 0.99, slack)
		atOnce.bounded("late rows", a.Delays["late"], 0.99, slack)
		if a.Late() == 0 {
			t.Error("no row was late: the test shows nothing")
		}
	})
	t.Run("arrive behind the default window", func(t *testing.T) {
		a := windowed.mustMatch(world.Expect{Steady: true})
		windowed.bounded("all", a.Delay(), 0.99, time.Second+slack)
		windowed.bounded("late rows", a.Delays["late"], 0.99, slack)
	})
	t.Run("arrive over kills", func(t *testing.T) {
		if a := killed.mustMatch(world.Expect{}); a.Repeated == 0 {
			t.Log("no kill hit a batch in flight")
		}
	})
}

type issuer struct {
	// server is where the table is, nil for a file of SQLite.
	server        func(testing.TB) *testenv.DatabaseServer
	bus           *world.Bus
	order, window string
	opts          workload.Options
	expect        world.Expect
	// part of all rows comes within bound and the noise, where that is set. briefly has the program
	// run with hotTime and sweepTime.
	part    float64
	bound   time.Duration
	briefly bool
	// inOrder says that no row is late; else some are, or the test shows nothing.
	inOrder bool
}

// TestWhereIDsComeFrom: several nodes interleave their ids, one of which is silent at first, for
// longer than the hot time; containers hold blocks of ids; the strictly ordered issuer of 64 tables
// commits out of order; and a file of SQLite has one writer at a time, so that ids commit in their
// order, save where the application chooses them.
func TestWhereIDsComeFrom(t *testing.T) {
	testall.Beside(t)
	kafka, nats := world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))
	steady := world.Expect{Steady: true}
	everyThird := func(t testing.TB) *testenv.DatabaseServer {
		return testenv.StartMariaDB(t, "--auto-increment-increment=3") // the server tells
	}
	length := 15 * time.Second
	if world.Soak {
		length = 10 * time.Minute
	}
	segments := func(containers int) workload.Options {
		const rate = 200
		return workload.Options{
			IDs: workload.IDs{Containers: containers}, Writers: 8, Rate: rate, Commits: int(rate * length.Seconds()), Seed: uint64(containers),
			Hold: workload.Hold{Short: 5 * time.Millisecond, Long: 2 * time.Second, LongShare: 0.001},
			// An entity that is written again has the lower id as often as not.
			Mix: workload.Mix{Rollback: 0.01, Replace: 0.25},
		}
	}
	strides := func(nodes int) workload.Options {
		opts := steadily(past() + 15*time.Second)
		opts.IDs, opts.Writers, opts.Seed = workload.IDs{Nodes: nodes, Silence: past()}, 2*nodes, uint64(nodes)
		return opts
	}
	file := func(ids workload.IDs) workload.Options {
		return workload.Options{
			IDs: ids, Writers: 4, Commits: 2000, Rate: 200, Mix: workload.Mix{Rollback: 0.05, Burn: 0.02, MultiRow: 0.05, Replace: 0.05, Delete: 0.01},
		}
	}
	for name, c := range map[string]issuer{
		"64 tables in strict order": {testenv.MariaDB, nats, "auto", "100ms", workload.Options{
			IDs: workload.IDs{Tables: 64, Ordered: true}, Writers: 16, Commits: 1500, Rate: 150, Seed: 3,
			Hold: workload.Hold{Short: 5 * time.Millisecond, Long: 5 * time.Second, LongShare: 0.02},
			Mix:  workload.Mix{Rollback: 0.05, Burn: 0.02, MultiRow: 0.05, Replace: 0.05},
		}, world.Expect{}, 0, 0, false, false},
		"blocks of 3 containers":  {testenv.MariaDB, kafka, "segmented", "0s", segments(3), steady, 0.99, slack, false, false},
		"blocks of 10 containers": {testenv.MariaDB, nats, "segmented", "1s", segments(10), steady, 0.99, time.Second + slack, false, false},
		"3 nodes":                 {everyThird, nats, "auto", "1s", strides(3), steady, 1, sweepTime + time.Second + slack, true, false},
		"7 nodes":                 {testenv.MariaDB, nats, "strided", "1s", strides(7), steady, 1, sweepTime + time.Second + slack, true, false},
		"a file":                  {nil, nats, "auto", "0s", file(workload.IDs{}), steady, 0.99, slack, false, true},
		"blocks in a file":        {nil, nats, "segmented", "0s", file(workload.IDs{Containers: 3, Block: 500}), steady, 0.99, slack, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var server *testenv.DatabaseServer
			if c.server != nil {
				server = c.server(t)
			}
			l, run := newRows(t, server, c.opts), plainTail
			if c.briefly {
				run = tailBriefly
			}
			d := run(l, c.bus, "ids", world.Env{"BRIDGE_ID_ORDER": c.order, "BRIDGE_STABILITY_WINDOW": c.window})
			l.Run()
			d.complete(sweepTime + time.Minute)
			a := d.mustMatch(c.expect)
			if c.bound > 0 {
				d.bounded("all", a.Delay(), c.part, c.bound)
			}
			if (a.Late() == 0) != c.inOrder {
				t.Errorf("%d late rows", a.Late())
			}
		})
	}
}

const timesVariable = "BRIDGE_TEST_TIMES"

// hotTime is how long vacant ids are hot, sweepTime how often cold ones are looked for, in the
// programs of tailBriefly: a row that only a sweep finds mostly comes after more than slack.
// The soak waits for the times that users have with MariaDB's defaults.
var hotTime, sweepTime = func() (hot, sweep time.Duration) {
	if world.Soak {
		return time.Minute, time.Minute
	}
	return 8 * time.Second, 16 * time.Second
}()

// tailBriefly is plainTail with hotTime and sweepTime; where more sets BRIDGE_GAP_TTL it is the hot
// time, too.
func tailBriefly(l *world.World, b *world.Bus, name string, more world.Env) *tailer {
	l.T.Helper()
	if world.Soak {
		return plainTail(l, b, name, more)
	}
	times := fmt.Sprintf("hot_time=%s,sweep=%s", hotTime, sweepTime)
	if more["BRIDGE_GAP_TTL"] != "" {
		times += fmt.Sprintf(",gap_ttl=%s", hotTime)
	}
	return tail(l, b, name, world.Faulty(l.T), world.Env{timesVariable: times}.With(more))
}

const strayID = 9_000_000_000_000_000_000

// TestAStrayHighID inserts a row with a high id and deletes it; rows go on below, before GAP_TTL
// and after it, in a burst with kills.
func TestAStrayHighID(t *testing.T) {
	testall.Beside(t)
	b := world.NATSBus(testenv.NATS(t))
	table := world.Empty(t, testenv.MariaDB(t))
	table.Exec("CREATE TABLE facts (id bigint unsigned NOT NULL PRIMARY KEY, name varchar(64) NOT NULL)")
	insert := func(first, last uint64) {
		table.Exec(fmt.Sprintf("INSERT INTO facts SELECT seq, concat('row-', seq) FROM seq_%d_to_%d", first, last))
	}
	d := table.Publish(b, world.Publishing{
		Path: world.Faulty(t), Streams: []world.Stream{{Name: "facts", Table: "facts", Kind: "release"}},
		Env: world.Env{timesVariable: "hot_time=2s,sweep=1s,gap_ttl=3s"},
	})
	name := d.Destination("facts")
	d.Start()
	arrive := func(what string, rows int64) {
		t.Helper()
		// Without the front they would come with a reconcile.
		world.Eventually(t, 30*time.Second, what, func() bool { return b.Count(t, name) >= rows })
	}
	insert(1, 100)
	arrive("the first rows", 100)
	insert(strayID, strayID)
	arrive("the stray row", 101)
	table.Exec("DELETE FROM facts WHERE id > 100")
	insert(101, 110)
	arrive("rows before GAP_TTL", 111)
	world.Eventually(t, time.Minute, "saved", func() bool { return d.Position("facts") == strayID })
	world.Eventually(t, time.Minute, "the stray id in the log", func() bool { return strings.Contains(d.Log.String(), "stray_id") })
	d.Term()
	if log := d.Log.String(); strings.Count(log, "stray_id=9000000000000000000") != 1 {
		t.Errorf("the log does not name the stray id once:\n%s", log)
	}
	if found := runCheck(t, d.Env).find("stray-id"); len(found) != 1 ||
		!strings.Contains(found[0].Statement, "bridge checkpoint set facts facts 110") {
		t.Errorf("check finds %+v", found)
	}
	d.Start()
	world.Eventually(t, time.Minute, "past GAP_TTL", func() bool {
		_, metrics := d.Get("/metrics")
		return strings.Contains(metrics, `bridge_unpolled_ids{stream="facts"} 8.99`) ||
			strings.Contains(metrics, `bridge_unpolled_ids{stream="facts"} 9e+18`)
	})
	for id := uint64(111); id <= 115; id++ {
		insert(id, id)
		arrive(fmt.Sprintf("row %d, long after GAP_TTL", id), int64(id)+1)
	}
	d.Kill()
	// From now on GAP_TTL is long.
	delete(d.Env, timesVariable)
	insert(1000, 10_999)
	d.Start()
	world.Eventually(t, time.Minute, "some of the burst", func() bool { return b.Count(t, name) > 1000 })
	d.Kill()
	d.Start()
	distinct := func() int {
		ids := make(map[string]bool)
		for _, r := range b.ReadAll(t, name) {
			ids[r.Headers["eiffel-id"]] = true
		}
		return len(ids)
	}
	world.Eventually(t, 2*time.Minute, "the burst", func() bool { return b.Count(t, name) >= 10_116 && distinct() == 10_116 })
	// A row that was left out before is in a gap like others now.
	insert(500, 500)
	world.Eventually(t, time.Minute, "a row that was left out", func() bool { return distinct() == 10_117 })
}
