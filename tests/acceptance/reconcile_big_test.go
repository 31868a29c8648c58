package acceptance

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// The table of the large run: rows with the ids behind bigFirst, of which bigChanged are then
// updated without a trace, bigGone deleted, and bigOld inserted under ids below.
const (
	bigFirst   = 1000
	bigChanged = 1000
	bigGone    = 500
	bigOld     = 500
)

// big is a large table, a program that publishes it and a writer beside it.
type big struct {
	*world.Publisher

	mu      sync.Mutex
	written map[string]time.Time
}

// bigRows is how many rows there are: a quarter of the long form's where time is short.
func bigRows() int {
	if world.Soak {
		return 2_000_000
	}
	return 500_000
}

// TestALargeTableIsReconciled takes a large table for known, changes one in a thousand and measures
// what finding these costs.
func TestALargeTableIsReconciled(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	occupy(t, wholeMachine)
	s := world.Empty(t, testenv.MariaDB(t))
	s.Exec(`CREATE TABLE big (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, app varchar(32) COLLATE utf8mb4_bin NOT NULL,
		name varchar(64) COLLATE utf8mb4_bin NOT NULL, state varchar(64) NOT NULL, created datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))`)
	s.Exec(fmt.Sprintf(`INSERT INTO big SELECT %d + seq, concat('app-', seq %% 97), md5(seq), concat('state ', seq, ' ', repeat('x', seq %% 40)),
		now(6) - interval 1 hour FROM %s`, bigFirst, testenv.Sequence(bigRows())))
	s.Exec("ALTER TABLE big ADD UNIQUE KEY entity (app, name)")

	b := world.NATSBus(testenv.NATS(t))
	p := s.Publish(b, world.Publishing{Name: "big", Follow: true, Env: world.Env{"BRIDGE_RECONCILE_INTERVAL": "24h"}, Streams: []world.Stream{{
		Name: "big", Table: "big", Kind: "capability", Env: world.Env{"KEY": "app,name", "CREATED": "created", "START": "latest"},
	}}})
	l := &big{Publisher: p, written: make(map[string]time.Time)}
	began := time.Now()
	p.Start()
	rss := l.watchMemory()
	world.Eventually(t, 3*time.Minute, "the table as it stands is known", func() bool { return strings.Contains(p.Log.String(), "as it stands is known") })
	first := p.ReconcileByHTTP("big", "")
	t.Logf("known and compared once after %s, RssAnon at most %d MiB: %+v", time.Since(began).Round(time.Second), rss()>>20, first)
	if n := p.Tape().Count(); n > 0 {
		t.Errorf("%d events of a table that was taken for known", n)
	}

	bare := l.bareSelect()
	stop := l.write()
	world.Pause(8 * time.Second)
	usual := l.delays(time.Time{})
	known := fmt.Sprintf("id BETWEEN %d AND %d AND id", bigFirst+1, bigFirst+bigRows())
	s.Exec(fmt.Sprintf("UPDATE big SET state = concat(state, ' again') WHERE %s %% %d = 7", known, bigRows()/bigChanged))
	s.Exec(fmt.Sprintf("DELETE FROM big WHERE %s %% %d = 11", known, bigRows()/bigGone))
	s.Exec(fmt.Sprintf("INSERT INTO big (id, app, name, state) SELECT seq, 'old', md5(seq), 's' FROM %s", testenv.Sequence(bigOld)))
	// What is younger than the window is not judged.
	world.Pause(1500 * time.Millisecond)
	// The first one finds what differs. Where something else kept the machine busy meanwhile,
	// another one tells what a reconcile costs.
	var tooMuch []string
	for range 5 {
		if tooMuch = l.costs(bare, usual); len(tooMuch) == 0 {
			break
		}
		t.Logf("too much: %s", tooMuch)
	}
	stop()
	if len(tooMuch) > 0 {
		t.Errorf("again and again: %s", tooMuch)
	}
	if peak := rss(); peak > 150<<20 {
		t.Errorf("RssAnon reached %d MiB, want less than 150", peak>>20)
	}
	l.differences()
}

// costs runs a reconcile and returns what it costs too much of, by how many rows a second a bare
// SELECT reads and how long rows usually take to the consumer.
func (l *big) costs(bare float64, usual []time.Duration) (tooMuch []string) {
	l.T.Helper()
	started := time.Now()
	report := l.ReconcileByHTTP("big", "")
	took := report.EndedAt.Sub(report.StartedAt)
	during := l.delays(started)

	perSecond := float64(bigRows()) / took.Seconds()
	l.T.Logf("%d rows in %s, %.0f a second, %.2f of a bare SELECT (%.0f a second); %+v",
		bigRows(), took.Round(time.Millisecond), perSecond, perSecond/bare, bare, report)
	l.T.Logf("from commit to consumer: usually %s, while it is reconciled %s", world.FormatDelays(usual), world.FormatDelays(during))
	if perSecond < bare/10 {
		tooMuch = append(tooMuch, fmt.Sprintf("%.0f rows a second, a bare SELECT has %.0f", perSecond, bare))
	}
	for _, part := range []float64{0.5, 0.99} {
		if is, was := world.Percentile(during, part), world.Percentile(usual, part); is > 2*was {
			tooMuch = append(tooMuch, fmt.Sprintf("the p%.0f of the delays is %s while it is reconciled, usually it is %s", part*100, is, was))
		}
	}
	return tooMuch
}

// watchMemory samples the memory of the daemon, which runs, until the test ends; peak returns the
// highest value so far.
func (l *big) watchMemory() (peak func() int64) {
	var mu sync.Mutex
	var highest int64
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
			// After its end there is nothing to see.
			if rss, err := l.RSSAnon(); err == nil {
				mu.Lock()
				highest = max(highest, rss)
				mu.Unlock()
			}
		}
	}()
	l.T.Cleanup(func() { cancel(); <-done })
	return func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return highest
	}
}

// bareSelect reads the table once in pages, as a reconcile has to, and returns how many rows a
// second that makes.
func (l *big) bareSelect() float64 {
	l.T.Helper()
	conn, err := l.World.DB.Conn(l.T.Context())
	if err != nil {
		l.T.Fatal(err)
	}
	defer conn.Close()
	started, rows, after := time.Now(), 0, uint64(0)
	for {
		n, last, err := barePage(l.T.Context(), conn, after)
		if err != nil {
			l.T.Fatal(err)
		}
		if n == 0 {
			return float64(rows) / time.Since(started).Seconds()
		}
		rows, after = rows+n, last
	}
}

func barePage(ctx context.Context, conn *sql.Conn, after uint64) (n int, last uint64, err error) {
	rows, err := conn.QueryContext(ctx, "SELECT id, app, name, state, created FROM big WHERE id > ? ORDER BY id LIMIT 2000", after)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	var app, name, state, created sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&last, &app, &name, &state, &created); err != nil {
			return 0, 0, err
		}
		n++
	}
	return n, last, rows.Err()
}

// write inserts 50 rows a second until it is told to stop.
func (l *big) write() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	var err error
	writer.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			name := fmt.Sprintf("live-%d", i)
			if _, err = l.World.DB.Exec("INSERT INTO big (app, name, state) VALUES ('live', ?, 's')", name); err != nil {
				return
			}
			l.mu.Lock()
			l.written[name] = time.Now()
			l.mu.Unlock()
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		writer.Wait()
		if err != nil {
			l.T.Error(err)
		}
	})
	l.T.Cleanup(stop)
	return stop
}

// delays returns from commit to consumer of what the writer wrote since then, ascending, once it
// has all arrived.
func (l *big) delays(since time.Time) []time.Duration {
	l.T.Helper()
	l.mu.Lock()
	var last string
	for name, at := range l.written {
		if last == "" || at.After(l.written[last]) {
			last = name
		}
	}
	l.mu.Unlock()
	arrived := make(map[string]time.Time)
	world.Eventually(l.T, time.Minute, last+" has arrived", func() bool {
		clear(arrived)
		for _, m := range l.Tape().All() {
			var e struct{ Data struct{ Name string } }
			if json.Unmarshal(m.Value, &e) == nil && strings.HasPrefix(e.Data.Name, "live-") {
				arrived[e.Data.Name] = m.At
			}
		}
		return !arrived[last].IsZero()
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	var delays []time.Duration
	for name, at := range l.written {
		if got, ok := arrived[name]; ok && at.After(since) {
			delays = append(delays, max(0, got.Sub(at)))
		}
	}
	slices.Sort(delays)
	return delays
}

// differences fails the test unless what differed was published, and nothing else.
func (l *big) differences() {
	l.T.Helper()
	counts := make(map[string]int)
	for _, m := range l.Received("big") {
		e, err := decodeEntity(m)
		if err != nil {
			l.T.Fatal(err)
		}
		if e.App != "live" {
			counts[string(world.OpOf(world.TypeOf(m)))]++
		}
	}
	if counts["added"] != bigOld || counts["modified"] != bigChanged || counts["deleted"] != bigGone {
		l.T.Errorf("published %v, want %d added, %d modified, %d deleted", counts, bigOld, bigChanged, bigGone)
	}
}

// decodeEntity returns the entity of an event.
func decodeEntity(m world.Message) (world.EntityKey, error) {
	var e struct{ Data struct{ App, Name string } }
	err := json.Unmarshal(m.Value, &e)
	return world.EntityKey{App: e.Data.App, Name: e.Data.Name}, err
}
