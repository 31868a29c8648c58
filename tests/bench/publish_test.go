package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/event"
	"bridge/internal/backoff"
	"bridge/sink"
	"bridge/tests/bench/report"
)

// batchRows is how many messages our sink is given at a time: BATCH_ROWS of bridge.
const batchRows = 2000

// publishOurs publishes a spool through s as bridge does for one shard: one batch after the other.
func publishOurs(s sink.Sink, j job, begin func()) (count, size int64, err error) {
	messages, err := openSpool(j.Spool)
	if err != nil {
		return 0, 0, err
	}
	if err := untilReady(s); err != nil {
		return 0, 0, err
	}
	batch := make([]sink.Message, 0, batchRows)
	begin()
	for more := true; more; {
		batch = batch[:0]
		made := time.Now()
		for len(batch) < batchRows {
			m, ok := messages.next()
			if more = ok; !ok {
				break
			}
			batch = append(batch, m.message(j.Destination, made))
			size += int64(len(m.value))
		}
		if len(batch) == 0 {
			break
		}
		outcome, err := s.Publish(context.Background(), batch)
		if err != nil {
			return count, size, err
		}
		if !outcome.AllAcked() || outcome.Duplicates > 0 {
			return count, size, fmt.Errorf("%d of %d acknowledged, %d of them as repeats", outcome.Acked(), len(batch), outcome.Duplicates)
		}
		count += int64(len(batch))
	}
	return count, size, nil
}

// untilReady waits for a bus that answers late because it has its hands full.
func untilReady(s sink.Sink) error {
	for deadline := time.Now().Add(requestTimeout); ; {
		err := s.Ready(context.Background())
		if err == nil || time.Now().After(deadline) {
			return err
		}
		_ = backoff.Pause(context.Background(), 100*time.Millisecond)
	}
}

// publisher is what publishes a spool, and the name of its work.
type publisher struct{ client, work string }

func publishers(one bus) []publisher {
	return []publisher{{report.Library, one.library()}, {report.OurSink, one.ours()}}
}

// publish measures one round of publishing a spool by one publisher, to a target of its own, and
// returns the time in seconds.
func (b *bench) publish(l load, by publisher) float64 {
	b.t.Helper()
	target := newTarget(l.kind)
	// All events of a backlog are of one type.
	destination := strings.ReplaceAll(l.bus.open(b.t, target), "{type}", "BenchEvent")
	r := child(b.t, job{Do: by.work, Spool: l.spool.path, Servers: l.bus.servers(), Target: target, Destination: destination})
	if held := l.bus.count(b.t, target); r.Count != int64(l.rows) || held != int64(l.rows) {
		b.t.Fatalf("%s has published %d messages, %s holds %d, want %d", by.work, r.Count, target, held, l.rows)
	}
	l.bus.drop(b.t, target)
	c := l.is()
	c.Client = by.client
	b.report.Add(report.Publish, c, report.Seconds, r.Seconds)
	b.report.Add(report.Publish, c, report.CPU, r.CPU/float64(l.rows)*1e6)
	b.screen.say("published the messages of a %s by %s: %.2f s, %.0f a second", l.name(), by.work, r.Seconds, float64(l.rows)/r.Seconds)
	return r.Seconds
}

var targets struct {
	mu   sync.Mutex
	next int
}

// newTarget returns a name that no topic and no stream of the run has.
func newTarget(kind event.Kind) string {
	targets.mu.Lock()
	defer targets.mu.Unlock()
	targets.next++
	return fmt.Sprintf("bench-%s-%d", kind, targets.next)
}

// consume runs work until stop is called; an error before that fails the test.
func consume(t testing.TB, release func(), work func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := work(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("the consumer ended: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done; release() })
	t.Cleanup(stop)
	return stop
}
