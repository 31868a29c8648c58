package jetstream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/testall"
	"bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// load is what publishers sends: each of n goroutines its own series of messages, spread over keys.
// round tells the series of one call from those of another.
type load struct{ n, each, keys, round int }

// publishers publishes a load in batches of 500 and returns what was sent.
func publishers(t *testing.T, s *jetstream.Sink, subject string, l load) [][]sink.Message {
	t.Helper()
	ctx := deadline(t, 8*time.Minute)
	sent := make([][]sink.Message, l.n)
	var wg sync.WaitGroup
	for p := range l.n {
		sent[p] = messages(subject, fmt.Sprintf("r%dp%d", l.round, p), l.each, l.keys)
		wg.Go(func() {
			for from := 0; from < l.each; from += 500 {
				batch := sent[p][from:min(from+500, l.each)]
				out, err := s.Publish(ctx, batch)
				if err != nil || !out.AllAcked() {
					t.Errorf("publisher %d: %d of %d acknowledged: %v", p, out.Acked(), len(batch), err)
					return
				}
				if out.Duplicates > 0 {
					t.Errorf("publisher %d: %d first sends count as duplicates", p, out.Duplicates)
				}
			}
		})
	}
	wg.Wait()
	return sent
}

// meanwhile runs f again and again, with a pause drawn between from and to, until the returned
// function is called.
func meanwhile(from, to time.Duration, f func()) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	count := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			timer := time.NewTimer(from + rand.N(to-from+1))
			select {
			case <-timer.C:
				f()
				count++
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	})
	return func() int {
		cancel()
		wg.Wait()
		return count
	}
}

// harming does harm to a server that publishers write to, with a pause drawn between from and to,
// until stop is called, and counts how often. A third time waits for 500 new messages on the
// stream: a slow machine has to get on, too.
func harming(t *testing.T, stream natsjs.Stream, from, to time.Duration, harm func()) (times *atomic.Int32, stop func() int) {
	t.Helper()
	times = new(atomic.Int32)
	idle, last := 0, uint64(0)
	stop = meanwhile(from, to, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		info, err := stream.Info(ctx)
		if err != nil {
			// The connection that asks is not back yet.
			return
		}
		switch end := info.State.LastSeq; {
		case end >= last+500:
			idle, last = 0, end
		case idle == 2:
			return
		default:
			idle++
		}
		harm()
		times.Add(1)
	})
	return times, stop
}

func TestOrder(t *testing.T) {
	t.Parallel()
	each := testall.Pick(4000, 15_000)
	server := testenv.AnyNATS(t)

	t.Run("a connection that is cut again and again loses, repeats and disorders nothing", func(t *testing.T) {
		p, s, stream, name := behindProxy(t, server, natsjs.StreamConfig{})
		cuts, stop := harming(t, stream, 40*time.Millisecond, 100*time.Millisecond, p.Drop)
		var sent [][]sink.Message
		// As many more as a fast machine needs until it was cut three times.
		for round := 0; cuts.Load() < 3 && !t.Failed(); round++ {
			sent = append(sent, publishers(t, s, name+".a", load{n: 4, each: each, keys: 50, round: round})...)
		}
		stop()
		t.Logf("%d cuts", cuts.Load())
		wantWhole(t, read(t, stream, ""), sent...)
	})

	t.Run("what was stored without an answer is found even when its id is forgotten", func(t *testing.T) {
		p, s, stream, name := behindProxy(t, server, natsjs.StreamConfig{Duplicates: 100 * time.Millisecond})
		// Warm, the worker sends the whole batch at once.
		warm, batch := messages(name+".a", "warm", 500, 10), messages(name+".a", "mute", 200, 10)
		mustPublish(t, s, warm)
		p.Mute()
		done := make(chan sink.Outcome, 1)
		go func() {
			out, err := s.Publish(deadline(t, 4*time.Minute), batch)
			if err != nil {
				t.Error(err)
			}
			done <- out
		}()
		eventually(t, 3*time.Second, "the batch is stored", func() bool { return len(read(t, stream, "")) == 700 })
		stored := time.Now()
		eventually(t, 3*time.Second, "the ids are forgotten", func() bool { return time.Since(stored) > 300*time.Millisecond })
		p.Heal()
		if out := <-done; !out.AllAcked() || out.Duplicates != 0 || out.At[len(out.At)-1].Offset != 700 {
			t.Errorf("%d acknowledged, %d duplicates, they lie at %+v", out.Acked(), out.Duplicates, out.At)
		}
		wantWhole(t, read(t, stream, ""), warm, batch)
	})

	t.Run("foreign messages and cuts together disorder nothing", func(t *testing.T) {
		p, s, stream, name := behindProxy(t, server, natsjs.StreamConfig{})
		js := server.JetStream(t)
		_, stopCuts := harming(t, stream, 40*time.Millisecond, 100*time.Millisecond, p.Drop)
		stop := meanwhile(0, 20*time.Millisecond, func() {
			if _, err := js.Publish(context.Background(), name+".foreign", []byte("x")); err != nil {
				t.Error(err)
			}
		})
		sent := publishers(t, s, name+".a", load{n: 4, each: 3000, keys: 50})
		stop()
		stopCuts()
		wantWhole(t, read(t, stream, name+".a"), sent...)
	})

	t.Run("nothing that follows a refused message of a batch is stored before it", func(t *testing.T) {
		s, stream, name := onStream(t, server, natsjs.StreamConfig{Discard: natsjs.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 5})
		// Warm, the worker sends the whole batch at once.
		warm := messages(name+".warm", "warm", 500, 10)
		for i := range warm {
			warm[i].Destination = fmt.Sprintf("%s.warm.%d", name, i)
		}
		mustPublish(t, s, warm)
		batch := messages(name+".full", "full", 100, 10)
		for i := range batch {
			if i%3 != 0 {
				batch[i].Destination = fmt.Sprintf("%s.free.%d", name, i)
			}
		}
		done := sinktest.Publishing(deadline(t, 4*time.Minute), s, batch)
		eventually(t, 10*time.Second, "Ready tells of the full subject", func() bool { return s.Ready(t.Context()) != nil })
		if got := len(read(t, stream, "")) - len(warm); got != 15 {
			t.Errorf("%d messages are stored, want the 15 before the sixth to the full subject", got)
		}
		stop := meanwhile(0, 10*time.Millisecond, func() {
			if err := stream.Purge(t.Context(), natsjs.WithPurgeSubject(name+".full")); err != nil {
				t.Error(err)
			}
		})
		if err := <-done; err != nil {
			t.Error(err)
		}
		stop()
		last := -1
		for i, m := range read(t, stream, name+".free.*") {
			var n int
			if _, err := fmt.Sscanf(m.id, "full-%d", &n); err != nil || n < last {
				t.Fatalf("message %d of the free subjects is %s, behind %d: %v", i, m.id, last, err)
			}
			last = n
		}
	})
}
