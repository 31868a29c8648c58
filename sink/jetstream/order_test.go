package jetstream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/sink"
	"bridge/sink/jetstream"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// publishers publishes from several goroutines, each a series of its own in batches of 500, and returns what was sent.
func publishers(t *testing.T, s *jetstream.Sink, subject string, n, each int) [][]sink.Message {
	t.Helper()
	ctx := deadline(t, 2*time.Minute)
	sent := make([][]sink.Message, n)
	var wg sync.WaitGroup
	for p := range n {
		sent[p] = messages(subject, fmt.Sprintf("p%d", p), each, 50)
		wg.Go(func() {
			for from := 0; from < each; from += 500 {
				batch := sent[p][from:min(from+500, each)]
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

// meanwhile runs f again and again, with a pause drawn between from and to, until the returned function is called.
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

func TestOrder(t *testing.T) {
	server := testenv.InProcessNATS(t)

	t.Run("a connection that is cut again and again loses, repeats and disorders nothing", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		p := newProxy(t, server.Addr())
		s := open(t, jetstream.Options{URLs: []string{p.url()}, Stream: name})
		stop := meanwhile(40*time.Millisecond, 100*time.Millisecond, p.cut)
		sent := publishers(t, s, name+".a", 4, 15000)
		if cuts := stop(); cuts < 3 {
			t.Errorf("only %d cuts", cuts)
		} else {
			t.Logf("%d cuts", cuts)
		}
		wantWhole(t, read(t, stream, ""), sent...)
	})

	t.Run("foreign messages in between disorder nothing", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		js := server.JetStream(t)
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
		ctx := deadline(t, time.Minute)
		stop := meanwhile(0, 2*time.Millisecond, func() {
			if _, err := js.Publish(ctx, name+".foreign", []byte("x")); err != nil {
				t.Error(err)
			}
		})
		sent := publishers(t, s, name+".a", 4, 3000)
		t.Logf("%d foreign messages", stop())
		wantWhole(t, read(t, stream, name+".a"), sent...)
	})

	t.Run("foreign messages and cuts together disorder nothing", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		js := server.JetStream(t)
		p := newProxy(t, server.Addr())
		s := open(t, jetstream.Options{URLs: []string{p.url()}, Stream: name})
		ctx := deadline(t, time.Minute)
		stopCuts := meanwhile(40*time.Millisecond, 100*time.Millisecond, p.cut)
		stop := meanwhile(0, 20*time.Millisecond, func() {
			if _, err := js.Publish(ctx, name+".foreign", []byte("x")); err != nil {
				t.Error(err)
			}
		})
		sent := publishers(t, s, name+".a", 4, 3000)
		stop()
		stopCuts()
		wantWhole(t, read(t, stream, name+".a"), sent...)
	})

	t.Run("a full stream that is drained slowly holds up and disorders nothing", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{Discard: natsjs.DiscardNew, MaxMsgs: 100, Retention: natsjs.WorkQueuePolicy})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
		ctx := deadline(t, time.Minute)
		consumer, err := stream.CreateConsumer(ctx, natsjs.ConsumerConfig{AckPolicy: natsjs.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		var got []seen
		var mu sync.Mutex
		stop := meanwhile(5*time.Millisecond, 10*time.Millisecond, func() {
			fetched, err := consumer.FetchNoWait(40)
			if err != nil {
				t.Error(err)
				return
			}
			for m := range fetched.Messages() {
				mu.Lock()
				got = append(got, seen{subject: m.Subject(), id: m.Headers().Get("Nats-Msg-Id")})
				mu.Unlock()
				if err := m.DoubleAck(ctx); err != nil {
					t.Error(err)
				}
			}
		})
		sent := publishers(t, s, name+".a", 2, 1000)
		eventually(t, 30*time.Second, "all messages are consumed", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) >= 2000
		})
		stop()
		wantWhole(t, got, sent...)
	})
}
