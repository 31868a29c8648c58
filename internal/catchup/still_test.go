package catchup_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"bridge/internal/catchup"
	"bridge/sink"
)

// A TP that is waited for holds up nobody else, and one that has lost messages is not waited for.
func TestReadingsThatStandStill(t *testing.T) {
	// blocked makes more TPs of stream o than are read side by side, each of which stands still
	// until open is closed.
	blocked := func(b *bus) (open chan struct{}) {
		for i := range 12 {
			tp := fmt.Sprintf("e/%d", i)
			b.make(tp)
			b.topics["e"] = append(b.topics["e"], tp)
			o := ours("b", 5, uint64(i)+2)
			o.stream = "o"
			b.append(tp, o.stored())
		}
		open = make(chan struct{})
		b.fail = func(span sink.Span) error {
			if span.TP[0] == 'e' {
				<-open
			}
			return nil
		}
		return open
	}
	bubble(t, "more partitions that do not answer than are read at once", func(t *testing.T) {
		b := newBus("d")
		open := blocked(b)
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Streams[0].Destinations = []string{"e"} }, "o", "s")
		done := make(chan error, 1)
		go func() { done <- r.c.Start(t.Context()) }()
		r.run()
		r.pass(time.Second)
		b.says(ours("a", 5, 1))
		resolved := make(chan error, 1)
		go func() { resolved <- r.c.Resolve(t.Context(), "s") }()
		r.pass(time.Minute)
		select {
		case err := <-resolved:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("a stream waits for the topic of another one: %+v", r.c.Progress().Streams)
		}
		close(open)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.pass(time.Minute)
	})
	bubble(t, "the end is lost while the start reads", func(t *testing.T) {
		b := newBus("d")
		for i := range 10 {
			b.says(ours("a", 5, uint64(i)+1))
		}
		b.fail = func(sink.Span) error {
			b.lose("d", 5)
			return nil
		}
		r := newRig(t, b, nil, nil, "s")
		done := make(chan error, 1)
		go func() { done <- r.c.Start(t.Context()) }()
		r.pass(10 * time.Minute)
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("the start waits for messages that are gone: %+v", r.c.Progress().Streams)
			for range 5 {
				b.other("x")
			}
			<-done
		}
	})
	bubble(t, "the end is lost while a hole is read", func(t *testing.T) {
		b := newBus("d")
		r := newRig(t, b, nil, nil, "s").start()
		for range 10 {
			b.other("x")
		}
		var once sync.Once
		b.fail = func(sink.Span) error {
			once.Do(func() { b.lose("d", 5) })
			return nil
		}
		r.run()
		r.pass(10 * time.Minute)
		done := make(chan error, 1)
		go func() { done <- r.c.Resolve(t.Context(), "s") }()
		r.pass(10 * time.Minute)
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("a publish of unknown outcome is not resolved")
			for range 9 {
				b.other("y")
			}
			<-done
		}
	})
}

// silent is a bus that does not say how far the topic e goes, once it is shut.
type silent struct {
	*bus
	shut chan struct{}
}

func (s silent) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	if destinations[0] == "e" {
		select {
		case <-s.shut:
			<-ctx.Done()
		default:
		}
	}
	return s.bus.TPs(ctx, destinations)
}

// TestWatchOfSeveralStreams: a topic whose bounds nobody tells does not keep the ends of others
// from being looked up.
func TestWatchOfSeveralStreams(t *testing.T) {
	bubble(t, "the first stream's topic does not answer", func(t *testing.T) {
		b := silent{newBus("d", "e"), make(chan struct{})}
		r := newRig(t, b.bus, nil, func(o *catchup.Options) { o.Reader, o.Streams[0].Destinations = b, []string{"e"} }, "o", "s").start()
		r.run()
		close(b.shut)
		r.pass(2 * time.Minute)
		b.says(ours("new", r.c.Epoch().Number()+1, 1))
		r.pass(2 * time.Minute)
		if !errors.Is(r.over, catchup.ErrSuperseded) {
			t.Errorf("superseded by %v, though another bridge has published a minute ago", r.over)
		}
	})
}
