package acceptance

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// pollEvery is BRIDGE_POLL_INTERVAL of the ledger's tests, in which bounds of delays are counted. These machines are noisy: what
// should take two polls may take patience and the noise of the time; the log has the exact figures.
const (
	pollEvery = 100 * time.Millisecond
	patience  = 20 * pollEvery
)

// machine lets those tests run one after the other that keep it busy; each takes its part of the places.
var machine = make(chan struct{}, wholeMachine)

// wholeMachine is how many places there are.
const wholeMachine = 3

// occupy waits for places of the machine until the test ends.
func occupy(t testing.TB, places int) {
	t.Helper()
	occupying.Lock()
	for range places {
		machine <- struct{}{}
	}
	occupying.Unlock()
	t.Cleanup(func() {
		for range places {
			<-machine
		}
	})
}

// occupying is held while a test takes its places, so that no two wait for each other.
var occupying sync.Mutex

// load is a workload on a database of its own, and those who tail it.
type load struct {
	t *testing.T
	// name is the database, url the address of a login that may SELECT.
	name, url string
	db        *sql.DB
	*workload.Workload
	// more are rows that the test commits itself.
	mu   sync.Mutex
	more []workload.Row
}

// newLoad makes the tables of a workload.
func newLoad(t *testing.T, server *testenv.MariaDBServer, opts workload.Options) *load {
	t.Helper()
	l := &load{t: t, name: server.NewDatabase(t)}
	l.db = server.Admin(t, l.name)
	l.url = (&revisions{t: t, server: server, name: l.name, db: l.db}).sourceURL()
	l.create(opts)
	return l
}

// newFileLoad makes the tables of a workload in a file of SQLite.
func newFileLoad(t *testing.T, opts workload.Options) *load {
	t.Helper()
	l := &load{t: t, name: testenv.NewStreamName()}
	path := filepath.Join(t.TempDir(), "app.db")
	var err error
	l.db, err = sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_pragma=synchronous(NORMAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.db.Close() })
	l.url, opts.Dialect = "sqlite://"+path, workload.SQLite
	l.create(opts)
	return l
}

func (l *load) create(opts workload.Options) {
	l.t.Helper()
	l.db.SetMaxIdleConns(opts.Writers + 1)
	opts.DB = l.db
	var err error
	if l.Workload, err = workload.New(opts); err != nil {
		l.t.Fatal(err)
	}
	if err := l.Create(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
}

// start sets the writers going; wait returns when they are done.
func (l *load) start() (wait func()) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	var err error
	writers.Go(func() { err = l.Run(ctx) })
	l.t.Cleanup(func() { cancel(); writers.Wait() })
	return func() {
		l.t.Helper()
		writers.Wait()
		if err != nil {
			l.t.Fatal(err)
		}
		l.t.Logf("the workload: %+v", l.Record().Sums())
	}
}

// rows returns all rows of the workload and of the test.
func (l *load) rows() []workload.Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(l.Record().Rows(), l.more...)
}

// add enters a row that the test has committed.
func (l *load) add(rows ...workload.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more = append(l.more, rows...)
}

// tailer is one daemon that tails a load, and a consumer of what it publishes.
type tailer struct {
	*daemon
	name string
	load *load
	tape *tape
	// noise is what delays come on top of.
	noise *noise
}

// stream is the stream of a tailer.
const stream = "orders"

// tail starts a daemon that publishes the load's tables to b as states of entities. tags are the build tags of the program.
func (l *load) tail(b bus, name string, more env, tags ...string) *tailer {
	l.t.Helper()
	destination := l.name + "_" + name
	tables := stream
	if len(l.Tables()) > 1 {
		tables = fmt.Sprintf("%s_{0..%d}", stream, len(l.Tables())-1)
	}
	e := b.env().with(env{
		"BRIDGE_SOURCE_URL":                l.url,
		"BRIDGE_STREAMS":                   stream,
		"BRIDGE_POLL_INTERVAL":             pollEvery.String(),
		"BRIDGE_STREAM_ORDERS_TABLE":       tables,
		"BRIDGE_STREAM_ORDERS_KIND":        "capability",
		"BRIDGE_STREAM_ORDERS_KEY":         "entity",
		"BRIDGE_STREAM_ORDERS_CREATED":     "created",
		"BRIDGE_STREAM_ORDERS_DESTINATION": b.open(l.t, destination),
	}).with(more)
	d := &tailer{daemon: newDaemon(l.t, binary(l.t, false, tags...), e), name: name, load: l, tape: b.follow(l.t, destination)}
	d.noise = measure(l.t, l.db, b, destination+"_noise")
	d.start()
	return d
}

// complete waits until every row that must be there has arrived, at most limit; what is then missing the judge reports.
func (d *tailer) complete(limit time.Duration) {
	d.t.Helper()
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) && len(judgeTape(d.tape.all(), d.load.rows(), expectations{}).lost) > 0 {
		pause(500 * time.Millisecond)
	}
}

// judge reports on the tape and fails the test for what is wrong with it.
func (d *tailer) judge(want expectations) account {
	d.t.Helper()
	a := judgeTape(d.tape.all(), d.load.rows(), want)
	d.t.Logf("%s: %s; noise %s", d.name, a, figures(d.noise.ascending()))
	if found := a.verdict(); found != "" {
		d.t.Errorf("%s:\n%s", d.name, found)
		d.where(a.lost)
	}
	return a
}

// where logs the ids of lost rows and how the program sees its gaps.
func (d *tailer) where(lost []workload.Row) {
	d.t.Helper()
	for i, row := range lost {
		if i == kindsShown {
			break
		}
		var id uint64
		err := d.load.db.QueryRow("SELECT id FROM "+row.Table+" WHERE token = ?", row.Token).Scan(&id)
		d.t.Logf("%s: lost %s has the id %d (%v)", d.name, row.Token, id, err)
	}
	d.t.Logf("%s: %+v", d.name, d.shards(stream))
}

// bounded fails the test when a part of delays lies above a bound and the slack for noise.
func (d *tailer) bounded(what string, delays []time.Duration, p float64, bound time.Duration) {
	d.t.Helper()
	bound += d.slack(p)
	if got := percentile(delays, p); got > bound {
		d.t.Errorf("%s: %s: p%.0f is %s, want at most %s", d.name, what, p*100, got, bound)
	}
}

// slack is what noise may add to a part of delays: twice what it was for that part, or at worst where the slowest are asked for,
// since a few late records may all fall into the worst moment.
func (d *tailer) slack(p float64) time.Duration {
	if p > 0.9 {
		p = 1
	}
	return 2 * percentile(d.noise.ascending(), p)
}

// drained waits until the position has reached every row of the table.
func (d *tailer) drained() {
	d.t.Helper()
	var last uint64
	if err := d.load.db.QueryRow("SELECT coalesce(max(id), 0) FROM " + stream).Scan(&last); err != nil {
		d.t.Fatal(err)
	}
	// How fast that is is for other tests to tell, and for a machine that is not busy with ten of them.
	patience := time.Minute + time.Duration(min(last, 240_000))*time.Millisecond
	eventually(d.t, patience, fmt.Sprintf("%s has passed %d", d.name, last), func() bool { return d.position(stream) >= last })
}

// has reports whether a row has arrived, and when first.
func (d *tailer) has(token string) (at time.Time, ok bool) {
	for _, m := range d.tape.all() {
		if strings.Contains(string(m.value), fmt.Sprintf("%q", token)) {
			return m.at, true
		}
	}
	return time.Time{}, false
}
