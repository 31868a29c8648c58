package stream_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

func TestRun(t *testing.T) {
	running(t, "a hole between acknowledgements is read, and its messages are late", func(t *testing.T, b *bus, r *rig) {
		b.other("x")
		b.says(ours("old", 7, 1))
		r.publishes("a")
		r.wantNext("s", "d", 0)
		r.pass(2 * time.Second)
		r.wantSeen("s", "old*")
		r.wantNext("s", "d", 3)
	})
	running(t, "the store names the entity of a late message until it was decided", func(t *testing.T, b *bus, r *rig) {
		b.says(ours("old", 7, 1))
		r.pass(2 * time.Minute)
		r.wantSeen("s", "old*")
		batches, _ := r.disk.applied()
		r = newRig(t, b, batches, nil, "s").start()
		r.run()
		r.pass(3 * time.Second)
		r.wantSeen("s", "")
		if waits := r.feeds["s"].movers.Waiting(); waits != 1 {
			t.Errorf("nominated are %d behind a kill", waits)
		}
		if _, _, err := r.feeds["s"].movers.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.pass(2 * time.Second)
		batches, _ = r.disk.applied()
		if waits := newRig(t, b, batches, nil, "s").start().feeds["s"].movers.Waiting(); waits > 0 {
			t.Errorf("%d are nominated though they were decided", waits)
		}
	})
	running(t, "an idle topic is read to its end once a minute", func(t *testing.T, b *bus, r *rig) {
		b.other("x")
		r.pass(50 * time.Second)
		r.wantNext("s", "d", 0)
		r.pass(15 * time.Second)
		r.wantNext("s", "d", 1)
	})
	running(t, "what is in flight is not read", func(t *testing.T, b *bus, r *rig) {
		m := r.sends("a")
		at := b.says(m)
		r.pass(2 * time.Minute)
		r.wantSeen("s", "")
		if err := r.acknowledge(m, at); err != nil {
			t.Error(err)
		}
		r.wantNext("s", "d", 1)
	})
	running(t, "a message of a higher epoch ends publishing, and not the process", func(t *testing.T, b *bus, r *rig) {
		b.says(ours("new", r.c.Epoch().Number()+1, 1))
		r.pass(2 * time.Minute)
		if !errors.Is(r.over, stream.ErrSuperseded) || !errors.Is(r.stopOf("s"), stream.ErrSuperseded) {
			t.Errorf("superseded by %v, the stream stops with %v", r.over, r.stopOf("s"))
		}
		r.wantSeen("s", "")
		if g := r.registration("s", "d"); g.Epoch != r.c.Epoch().Number()+1 {
			t.Errorf("the store has met epoch %d", g.Epoch)
		}
	})
	running(t, "a message of our epoch that was never sent ends publishing", func(t *testing.T, b *bus, r *rig) {
		b.says(ours("new", r.c.Epoch().Number(), 77))
		r.pass(2 * time.Minute)
		if !errors.Is(r.over, stream.ErrSuperseded) {
			t.Errorf("superseded by %v", r.over)
		}
	})
	bubble(t, "an added partition is read from its beginning", func(t *testing.T) {
		b := newBus("d")
		b.topics["d"] = []string{"d", "d/2"}
		r := newRig(t, b, nil, nil, "s").start()
		r.run()
		b.make("d/2")
		b.append("d/2", ours("a", 7, 1).stored())
		r.pass(2 * time.Minute)
		r.wantSeen("s", "a")
		r.wantNext("s", "d/2", 1)
	})
	goesOn(t, "a topic that is made again is read again at a new session", func(t *testing.T, b *bus, r *rig) {
		r.run()
		b.make("d")
		b.says(ours("a", 5, 1))
		r.pass(time.Second)
		r.c.NewSession("d")
		r.pass(3 * time.Second)
		r.wantSeen("s", "a")
		r.wantRead(2, true)
	})
}

func TestResolve(t *testing.T) {
	started(t, "it reads what a publish of unknown outcome has stored", func(t *testing.T, b *bus, r *rig) {
		m := r.sends("a")
		b.says(m)
		r.committer.Unknown(m.seq)
		if err := r.c.Resolve(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		r.wantSeen("s", "a*")
	})
	started(t, "it waits for the outcome of another shard's batch, and reads on behind it", func(t *testing.T, b *bus, r *rig) {
		mine, other := r.sends("a"), r.sends("b")
		at := b.says(other)
		b.says(mine)
		r.committer.Unknown(mine.seq)
		done := make(chan error, 1)
		go func() { done <- r.c.Resolve(t.Context(), "s") }()
		synctest.Wait()
		r.wantSeen("s", "")
		select {
		case err := <-done:
			t.Fatalf("Resolve returns %v before the outcome is known", err)
		default:
		}
		if err := r.acknowledge(other, at); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.wantSeen("s", "a*")
	})
	started(t, "two that wait for one another's batch both end once it is unknown", func(t *testing.T, b *bus, r *rig) {
		one, two := r.sends("a"), r.sends("b")
		b.says(two)
		b.says(one)
		done := make(chan error, 2)
		for _, m := range []*said{one, two} {
			r.committer.Unknown(m.seq)
			go func() { done <- r.c.Resolve(t.Context(), "s") }()
			synctest.Wait()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		r.wantSeen("s", "b* a*")
	})
}

func TestResolveOfWhatCannotBeRead(t *testing.T) {
	for _, release := range []bool{false, true} {
		b := newBus("d")
		r := newRig(t, b, nil, func(o *stream.Options) { o.Streams[0].Release = release }, "s").start()
		b.looks(unreadable)
		r.committer.Unknown(r.sends("a").seq)
		if err := r.c.Resolve(t.Context(), "s"); release != (err == nil) || err != nil && !errors.Is(err, sink.ErrUnreadable) {
			t.Errorf("of a release stream %v: %v", release, err)
		}
		if doubts := r.committer.Doubts("s"); doubts > 0 && release {
			t.Errorf("%d batches are kept that nobody reads back", doubts)
		}
	}
}

func TestAcknowledged(t *testing.T) {
	bubble(t, "one at an offset that is covered or taken, without an offset, or of a topic made again is unknown", func(t *testing.T) {
		b, batches := filled(t, nil)
		r := newRig(t, b, batches, nil, "s").start()
		for name, acks := range map[string][]stream.Span{
			"below":             {{TP: 1, Range: stream.Range{From: 2, To: 3}}},
			"without an offset": {{TP: 1}},
			"not registered":    {{TP: 7, Range: stream.Range{From: 9, To: 10}}},
			// As where the bus has lost the former one since.
			"as another of the batch": {{TP: 1, Range: stream.Range{From: 9, To: 12}}, {TP: 1, Range: stream.Range{From: 11, To: 12}}},
		} {
			m := r.sends("a")
			if err := r.committer.Acknowledged(t.Context(), m.seq, acks, &store.Batch{}); !errors.Is(err, stream.ErrReadBack) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// Right before another one there is room.
		for _, at := range []uint64{9, 8} {
			if err := r.acknowledge(r.sends("a"), at); err != nil {
				t.Error(err)
			}
		}
		r.wantNext("s", "d", 3)
	})
	started(t, "what the store does not take is not covered", func(t *testing.T, b *bus, r *rig) {
		m := r.sends("a")
		at := b.says(m)
		r.disk.kill(0)
		if err := r.acknowledge(m, at); !errors.Is(err, errKilled) {
			t.Fatalf("acknowledged: %v", err)
		}
		r.disk.kill(-1)
		if err := r.c.Resolve(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		r.wantSeen("s", "a*")
	})
	bubble(t, "it covers the topic for the other streams", func(t *testing.T) {
		b := newBus("d")
		r := newRig(t, b, nil, nil, "s", "o").start()
		r.publishes("a")
		r.wantNext("s", "d", 1)
		r.wantNext("o", "d", 1)
	})
	started(t, "it is still in flight while the disk takes no writes, and is called again", func(t *testing.T, b *bus, r *rig) {
		m := r.sends("a")
		at := b.says(m)
		r.disk.fault = store.ErrOutage
		r.disk.kill(0)
		if err := r.acknowledge(m, at); !errors.Is(err, store.ErrOutage) {
			t.Fatal(err)
		}
		r.pass(time.Minute)
		r.wantNext("s", "d", 0)
		r.disk.kill(-1)
		if err := r.acknowledge(m, at); err != nil {
			t.Fatal(err)
		}
		r.wantNext("s", "d", 1)
	})
}
