package catchup_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bridge/internal/catchup"
	"bridge/sink"
)

// open is a bus whose last message is in a transaction that has not ended.
type open struct{ *bus }

func (o open) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	tps, err := o.bus.TPs(ctx, destinations)
	for i := range tps {
		tps[i].Stable--
	}
	return tps, err
}

// TestFollowWaitsForNoTransaction: another process is publishing while this one reads.
func TestFollowWaitsForNoTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 7, 1))
		b.says(ours("b", 7, 2))
		turn := make(chan struct{})
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Turn, o.Reader = turn, open{b} }, "s")
		started := make(chan error, 1)
		go func() { started <- r.c.Start(t.Context()) }()
		r.pass(time.Minute)
		r.wantSeen("s", "a")
		close(turn)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		r.wantSeen("s", "b")
	})
}

// TestFollow has a process read what another one publishes until it is its turn.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 7, 1))
		turn := make(chan struct{})
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Turn = turn }, "s")
		started := make(chan error, 1)
		go func() { started <- r.c.Start(t.Context()) }()
		state := func(following, ready bool) {
			t.Helper()
			p := r.c.Progress().Streams[0]
			if p.Following != following || p.Ready != ready {
				t.Fatalf("%+v, want following %t, ready %t", p, following, ready)
			}
		}
		r.pass(time.Millisecond)
		state(true, false)
		r.wantSeen("s", "a")
		b.says(ours("b", 7, 2))
		r.pass(6 * time.Second)
		state(true, false)
		r.wantSeen("s", "b")
		r.wantNext("s", "d", 2)
		if r.c.Epoch() != nil {
			t.Error("it has an epoch before its turn")
		}
		b.says(ours("c", ^uint64(0)>>8, 3))
		close(turn)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		state(false, true)
		r.wantSeen("s", "c")
		if !r.feeds["s"].due {
			t.Error("no reconcile follows the take-over")
		}
		if n := r.c.Epoch().Number(); n != ^uint64(0)>>8+1 {
			t.Errorf("its epoch is %d", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBus("d")
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Turn = make(chan struct{}) }, "s")
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan error, 1)
		go func() { started <- r.c.Start(ctx) }()
		r.pass(time.Minute)
		cancel()
		if err := <-started; err == nil || r.c.Epoch() != nil {
			t.Errorf("a start that is cancelled ends with %v, epoch %v", err, r.c.Epoch())
		}
	})
}

// TestFollowPassesLateMessages: an offset passes a late message at once, and its entity is
// nominated when it is the turn of the process.
func TestFollowPassesLateMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		turn := make(chan struct{})
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Turn = turn }, "s")
		started := make(chan error, 1)
		go func() { started <- r.c.Start(t.Context()) }()
		r.pass(10 * time.Second)
		b.says(ours("b", 4, 1))
		b.says(ours("c", 5, 2))
		r.pass(10 * time.Second)
		r.wantSeen("s", "a b* c")
		r.wantNext("s", "d", 3)
		if waits := r.feeds["s"].waiting(); len(waits) > 0 {
			t.Errorf("%q are nominated though another process publishes", waits)
		}
		close(turn)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		if waits := r.feeds["s"].waiting(); len(waits) != 1 || !r.feeds["s"].due {
			t.Errorf("nominated are %q, a reconcile is due: %v", waits, r.feeds["s"].due)
		}
	})
}

// deaf is a bus that answers nothing any more once it is told so.
type deaf struct {
	*bus
	mute *atomic.Bool
}

func (d deaf) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	if d.mute.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return d.bus.TPs(ctx, destinations)
}

// TestFollowThatHangs: a process that has not read to the end for more than a minute does not say
// that it follows.
func TestFollowThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, mute := newBus("d"), new(atomic.Bool)
		r := newRig(t, b, nil, func(o *catchup.Options) { o.Turn, o.Reader = make(chan struct{}), deaf{b, mute} }, "s")
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan error, 1)
		go func() { started <- r.c.Start(ctx) }()
		r.pass(time.Hour)
		if p := r.c.Progress().Streams[0]; !p.Following || p.Ready {
			t.Errorf("%+v", p)
		}
		mute.Store(true)
		r.pass(10 * time.Minute)
		if p := r.c.Progress().Streams[0]; p.Following || p.Ready {
			t.Errorf("it hangs: %+v", p)
		}
		cancel()
		<-started
	})
}

// TestFollowOfATopicThatIsMadeAgain: a capability stream reads on, a release stream has the process
// started again, which reads what is left.
func TestFollowOfATopicThatIsMadeAgain(t *testing.T) {
	for name, release := range map[string]bool{"capability": false, "release": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBus("d")
				b.says(ours("a", 5, 1))
				change := func(o *catchup.Options) {
					o.Turn, o.Streams[0].Release = make(chan struct{}), release
				}
				r := newRig(t, b, nil, change, "s")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				started := make(chan error, 1)
				start := func() { started <- r.c.Start(ctx) }
				go start()
				r.pass(time.Minute)
				r.wantSeen("s", "a")
				b.make("d")
				b.says(ours("b", 5, 2))
				r.pass(time.Minute)
				if release {
					if err := <-started; !errors.Is(err, catchup.ErrStartAgain) {
						t.Fatalf("Start ends with %v", err)
					}
					batches, _ := r.disk.applied()
					r = newRig(t, b, batches, change, "s")
					go start()
					r.pass(time.Minute)
				}
				r.wantSeen("s", "b")
				if p := r.c.Progress().Streams[0]; !p.Following || p.Err != nil {
					t.Errorf("%+v", p)
				}
				if n := r.feeds["s"].followed; n != 1 {
					t.Errorf("the feed was told %d times that it follows", n)
				}
				cancel()
				<-started
			})
		})
	}
}

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
