package stream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// follower is a process that reads what another one publishes until it is its turn.
type follower struct {
	*rig
	turn    chan struct{}
	started chan error
	// cancel ends Start.
	cancel func()
}

// follows starts one. It has to end by elect, or by cancel.
func follows(t *testing.T, b *bus, batches []store.Batch, change func(*stream.Options)) *follower {
	f := &follower{turn: make(chan struct{}), started: make(chan error, 1)}
	f.rig = newRig(t, b, batches, func(o *stream.Options) {
		if o.Turn = f.turn; change != nil {
			change(o)
		}
	}, "s")
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(t.Context())
	go func() { f.started <- f.c.Start(ctx) }()
	f.pass(10 * time.Second)
	return f
}

// elect has it be its turn, and waits until it is ready.
func (f *follower) elect() {
	f.t.Helper()
	close(f.turn)
	if err := <-f.started; err != nil {
		f.t.Fatal(err)
	}
	f.state(false, true)
}

func (f *follower) state(following, ready bool) {
	f.t.Helper()
	if p := f.c.Progress().Streams[0]; p.Following != following || p.Ready != ready || p.Err != nil {
		f.t.Fatalf("%+v, want following %t, ready %t", p, following, ready)
	}
}

func TestFollow(t *testing.T) {
	bubble(t, "another process is publishing in a transaction", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 7, 1))
		b.says(ours("b", 7, 2))
		b.open = 1
		f := follows(t, b, nil, nil)
		f.wantSeen("s", "a")
		f.elect()
		f.wantSeen("s", "b")
	})
	bubble(t, "what another one publishes is read, and then the rest with an epoch above", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 7, 1))
		f := follows(t, b, nil, nil)
		f.state(true, false)
		f.wantSeen("s", "a")
		b.says(ours("b", 7, 2))
		f.pass(6 * time.Second)
		f.state(true, false)
		f.wantSeen("s", "b")
		f.wantNext("s", "d", 2)
		if f.c.Epoch() != nil {
			t.Error("it has an epoch before its turn")
		}
		const highest = 1<<56 - 1
		b.says(ours("c", highest, 3))
		f.elect()
		f.wantSeen("s", "c")
		if n := f.c.Epoch().Number(); n != highest+1 || !f.feeds["s"].due {
			t.Errorf("its epoch is %d, a reconcile is due: %v", n, f.feeds["s"].due)
		}
	})
}

// TestFollowPassesLateMessages: an offset passes a late message at once, and its entity is
// nominated when it is the turn of the process.
func TestFollowPassesLateMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		f := follows(t, b, nil, nil)
		b.says(ours("b", 4, 1))
		b.says(ours("c", 5, 2))
		f.pass(10 * time.Second)
		f.wantSeen("s", "a b* c")
		f.wantNext("s", "d", 3)
		if waits := f.feeds["s"].movers.Waiting(); waits > 0 {
			t.Errorf("%d are nominated though another process publishes", waits)
		}
		f.elect()
		if waits := f.feeds["s"].movers.Waiting(); waits != 1 || !f.feeds["s"].due {
			t.Errorf("nominated are %d, a reconcile is due: %v", waits, f.feeds["s"].due)
		}
	})
}

func hangs(ctx context.Context, _ []string) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestFollowThatHangs: a process that has not read to the end for more than a minute does not say
// that it follows.
func TestFollowThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus("d")
		f := follows(t, b, nil, nil)
		f.pass(time.Hour)
		f.state(true, false)
		b.looks(hangs)
		f.pass(10 * time.Minute)
		f.state(false, false)
		f.cancel()
		<-f.started
	})
}

// TestFollowOfATopicThatIsMadeAgain: a capability stream reads on, a release stream has the process
// started again, which reads what is left.
func TestFollowOfATopicThatIsMadeAgain(t *testing.T) {
	for name, release := range map[string]bool{"capability": false, "release": true} {
		bubble(t, name, func(t *testing.T) {
			b := newBus("d")
			b.says(ours("a", 5, 1))
			change := func(o *stream.Options) { o.Streams[0].Release = release }
			f := follows(t, b, nil, change)
			f.wantSeen("s", "a")
			b.make("d")
			b.says(ours("b", 5, 2))
			f.pass(time.Minute)
			if release {
				if err := <-f.started; !errors.Is(err, stream.ErrStartAgain) {
					t.Fatalf("Start ends with %v", err)
				}
				batches, _ := f.disk.applied()
				f = follows(t, b, batches, change)
			}
			f.wantSeen("s", "b")
			f.state(true, false)
			if n := f.feeds["s"].followed; n != 1 {
				t.Errorf("the feed was told %d times that it follows", n)
			}
			f.cancel()
			<-f.started
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
		return b.holds("e")
	}
	bubble(t, "more partitions that do not answer than are read at once", func(t *testing.T) {
		b := newBus("d")
		open := blocked(b)
		r := newRig(t, b, nil, func(o *stream.Options) { o.Streams[0].Destinations = []string{"e"} }, "o", "s")
		done := r.starting()
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
		b.fails(func(sink.Span) error {
			b.lose("d", 5)
			return nil
		})
		r := newRig(t, b, nil, nil, "s")
		done := r.starting()
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
}

// TestWatchOfSeveralStreams: a topic whose bounds nobody tells does not keep the ends of others
// from being looked up.
func TestWatchOfSeveralStreams(t *testing.T) {
	bubble(t, "the first stream's topic does not answer", func(t *testing.T) {
		b := newBus("d", "e")
		r := newRig(t, b, nil, func(o *stream.Options) { o.Streams[0].Destinations = []string{"e"} }, "o", "s").start()
		r.run()
		r.pass(0)
		b.looks(func(ctx context.Context, destinations []string) error {
			if destinations[0] == "e" {
				return hangs(ctx, nil)
			}
			return nil
		})
		r.pass(2 * time.Minute)
		b.says(ours("new", r.c.Epoch().Number()+1, 1))
		r.pass(2 * time.Minute)
		if !errors.Is(r.over, stream.ErrSuperseded) {
			t.Errorf("superseded by %v, though another bridge has published a minute ago", r.over)
		}
	})
}
