package stream_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// bubble runs a test with time that passes at once.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// stopOf returns why a stream does not go on.
func (r *rig) stopOf(stream string) error { return r.c.Wait(r.t.Context(), stream) }

func TestStart(t *testing.T) {
	bubble(t, "without a store all is read, and the epoch is above all met", func(t *testing.T) {
		b := newBus("d")
		b.other("x")
		b.says(ours("a", 1<<50, 1))
		b.says(ours("b", 1<<50, 2))
		r := newRig(t, b, nil, nil, "s").start()
		r.wantSeen("s", "a b")
		r.wantNext("s", "d", 3)
		batches, synced := r.disk.applied()
		if n := r.c.Epoch().Number(); n != 1<<50+1 || batches[synced-1].Epoch != n || synced != len(batches) {
			t.Errorf("epoch %d, %d of %d batches synced", n, synced, len(batches))
		}
		r = newRig(t, b, batches, nil, "s").start()
		r.wantSeen("s", "")
		if n := r.c.Epoch().Number(); n != 1<<50+2 {
			t.Errorf("the next epoch is %d, though nothing was published in the last one", n)
		}
	})
	bubble(t, "one reading serves two streams, and a new one reads from the beginning", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		o := ours("b", 5, 2)
		o.stream = "o"
		b.says(o)
		r := newRig(t, b, nil, nil, "s").start()
		r.wantSeen("s", "a")
		batches, _ := r.disk.applied()
		r = newRig(t, b, batches, nil, "s", "o").start()
		r.wantSeen("s", "")
		r.wantSeen("o", "b")
		r.wantNext("o", "d", 2)
	})
	bubble(t, "a message of another domain is not ours", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		r := newRig(t, b, nil, func(o *stream.Options) { o.Domain = "other" }, "s").start()
		r.wantSeen("s", "")
	})
	bubble(t, "a late message is applied, and its entity nominated when the stream is ready", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		b.says(ours("b", 4, 1))
		b.says(ours("c", 5, 2))
		r := newRig(t, b, nil, nil, "s").start()
		r.wantSeen("s", "a b* c")
		r.wantNext("s", "d", 3)
		if waits := r.feeds["s"].movers.Waiting(); waits != 1 {
			t.Errorf("nominated are %d", waits)
		}
	})
	bubble(t, "an epoch below that of the store is late", func(t *testing.T) {
		b, batches := filled(t, nil)
		b.says(ours("d", 8, 1))
		newRig(t, b, batches, nil, "s").start().wantSeen("s", "d*")
	})
}

func TestStartStops(t *testing.T) {
	stateless := func(b *bus) {
		m := ours("x", 5, 9).stored()
		m.Headers = m.Headers[:len(m.Headers)-1]
		b.append("d", m)
	}
	for name, tt := range map[string]struct {
		at   func(*bus)
		want string
	}{
		"a message without a state": {stateless, "begin at START again: bridge checkpoint reset s;"},
		"a message of a newer form": {func(b *bus) {
			m := ours("x", 5, 9).stored()
			m.Headers[len(m.Headers)-1].Value = []byte("2 1 1 0.0.0 x 0 9")
			b.append("d", m)
		}, "newer form"},
		"a newest message with another hash": {func(b *bus) {
			m := ours("x", 5, 9)
			m.hash = 8
			b.says(m)
		}, "another KIND, KEY or scope of entities: restore that setting, use another destination, or stop bridge, then to ignore what was published"},
	} {
		bubble(t, name+" stops its stream and no other", func(t *testing.T) {
			b := newBus("d")
			b.says(ours("a", 5, 1))
			tt.at(b)
			o := ours("b", 5, 2)
			o.stream = "o"
			b.says(o)
			r := newRig(t, b, nil, nil, "s", "o").start()
			stop, ok := errors.AsType[*stream.StopError](r.stopOf("s"))
			if !ok || stop.Offset != 1 || !strings.Contains(stop.Error(), tt.want) {
				t.Errorf("the stream stops with %v", r.stopOf("s"))
			}
			if err := r.stopOf("o"); err != nil {
				t.Errorf("the other one stops with %v", err)
			}
			r.wantNext("s", "d", 1)
			r.wantNext("o", "d", 3)
		})
	}
	bubble(t, "a message with another hash is passed over once a newer one has ours", func(t *testing.T) {
		b := newBus("d")
		m := ours("x", 5, 1)
		m.hash = 8
		b.says(m)
		b.says(ours("a", 5, 2))
		r := newRig(t, b, nil, nil, "s").start()
		r.wantSeen("s", "a")
		r.wantNext("s", "d", 2)
	})
	bubble(t, "a message without a state may be ignored", func(t *testing.T) {
		b := newBus("d")
		stateless(b)
		r := newRig(t, b, nil, func(o *stream.Options) { o.Streams[0].IgnoreBelow = 1 }, "s").start()
		r.wantNext("s", "d", 1)
	})
	bubble(t, "a message with another hash may be ignored, but for one since the command", func(t *testing.T) {
		b := newBus("d")
		m := ours("x", 5, 1)
		m.hash = 8
		b.says(m)
		r := newRig(t, b, nil, func(o *stream.Options) { o.Streams[0].IgnoreBelow = 6 }, "s").start()
		r.wantNext("s", "d", 1)
		r = newRig(t, b, nil, func(o *stream.Options) { o.Streams[0].IgnoreBelow = 5 }, "s").start()
		if stop, ok := errors.AsType[*stream.StopError](r.stopOf("s")); !ok {
			t.Errorf("the stream stops with %v", stop)
		}
	})
	bubble(t, "a stream that was stopped stays so, and is not read", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		why := errors.New("why")
		r := newRig(t, b, nil, func(o *stream.Options) { o.Streams[0].Stopped = why }, "s", "other").start()
		if err := r.stopOf("s"); !errors.Is(err, why) || r.stopOf("other") != nil {
			t.Errorf("the streams stop with %v, %v", err, r.stopOf("other"))
		}
		r.wantSeen("s", "")
	})
	bubble(t, "an error of the feed stops its stream", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		r := newRig(t, b, nil, nil, "s")
		r.feeds["s"].err = errKilled
		if err := r.start().stopOf("s"); !errors.Is(err, errKilled) {
			t.Errorf("the stream stops with %v", err)
		}
		r.wantNext("s", "d", 0)
	})
	bubble(t, "a part of the store that cannot be read has its stream wait, and no other", func(t *testing.T) {
		b := newBus("d")
		u := ours("b", 5, 2)
		u.stream = "u"
		b.says(ours("a", 5, 1))
		b.says(u)
		r := newRig(t, b, nil, func(o *stream.Options) { o.Workers = 1 }, "s", "u")
		r.feeds["s"].fail(stream.ErrUnread, "")
		done := r.starting()
		r.pass(time.Minute)
		r.wantSeen("u", "b")
		if p := r.c.Progress().Streams; p[0].Ready || p[0].Err != nil || !p[1].Ready {
			t.Errorf("%+v", p)
		}
		r.feeds["s"].fail(nil, "")
		if err := errors.Join(<-done, r.stopOf("s")); err != nil {
			t.Error(err)
		}
		r.wantSeen("s", "a")
		r.run()
		r.feeds["s"].fail(stream.ErrUnread, "")
		b.says(ours("c", 5, 3))
		u.key, u.seq = "d", 4
		b.says(u)
		r.pass(3 * time.Minute)
		r.wantSeen("u", "d*")
		r.feeds["s"].fail(nil, "")
		r.pass(time.Minute)
		r.wantSeen("s", "c*")
	})
	bubble(t, "a panic of the feed stops its stream and no other", func(t *testing.T) {
		b := newBus("d", "e")
		b.says(ours("a", 5, 1))
		r := newRig(t, b, nil, nil, "s", "u")
		r.feeds["s"].panics = true
		if err := r.start().stopOf("s"); !panics.Is(err) {
			t.Errorf("the stream stops with %v", err)
		}
		if err := r.stopOf("u"); err != nil {
			t.Errorf("the other one stops with %v", err)
		}
	})
	bubble(t, "an error of the store ends Start", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		r := newRig(t, b, nil, nil, "s")
		r.disk.kill(1)
		if err := r.c.Start(t.Context()); !errors.Is(err, errKilled) {
			t.Errorf("Start: %v", err)
		}
	})
}

// filled is a bus with three messages, and a store that has read them.
func filled(t *testing.T, change func(*stream.Options)) (*bus, []store.Batch) {
	b := newBus("d")
	for i, key := range []string{"a", "b", "c"} {
		b.says(ours(key, 5, uint64(i)+1))
	}
	r := newRig(t, b, nil, change, "s").start()
	batches, _ := r.disk.applied()
	return b, batches
}

func TestAnotherTopicIsReadAgain(t *testing.T) {
	refill := func(b *bus) {
		b.says(ours("a", 5, 1))
		b.says(ours("b", 5, 2))
		b.says(ours("c", 5, 7))
	}
	for name, harm := range map[string]func(*bus){
		"it ends early":                         func(b *bus) { b.lose("d", 2) },
		"another message lies at the anchor":    func(b *bus) { b.lose("d", 0); refill(b) },
		"it was made again with the same ends":  func(b *bus) { b.make("d"); refill(b) },
		"it begins behind what was read of it":  func(b *bus) { b.other("x"); b.other("y"); b.expire("d", 4) },
		"it lost all, and others have refilled": func(b *bus) { b.lose("d", 0); b.other("1"); b.other("2"); b.other("3"); b.other("4") },
	} {
		bubble(t, name, func(t *testing.T) {
			b, batches := filled(t, nil)
			harm(b)
			r := newRig(t, b, batches, nil, "s").start()
			if g := r.registration("s", "d"); g.Number != 2 || g.Next != b.end("d") || r.committer.InForce(1) != 2 {
				t.Errorf("registration %+v, in force %d", g, r.committer.InForce(1))
			}
			if !r.feeds["s"].due {
				t.Error("no reconcile is due")
			}
			disputed := 0
			for _, key := range []string{"a", "b", "c"} {
				e, err := r.feeds["s"].entry(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if e.Disputed {
					disputed++
				}
			}
			if gone := b.end("d") != 3; gone && disputed == 0 {
				t.Error("no entry is disputed")
			}
		})
	}
	bubble(t, "it lost a late message and what came behind it, and others have refilled", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		b.says(ours("b", 4, 1))
		b.says(ours("c", 5, 2))
		r := newRig(t, b, nil, nil, "s").start()
		r.wantNext("s", "d", 3)
		batches, _ := r.disk.applied()
		b.lose("d", 1)
		b.other("1")
		b.other("2")
		r = newRig(t, b, batches, nil, "s").start()
		r.wantRead(2, true)
	})
	bubble(t, "it lost what was acknowledged beyond a hole, and others have refilled", func(t *testing.T) {
		b, batches := filled(t, nil)
		r := newRig(t, b, batches, nil, "s").start()
		b.other("x")
		r.publishes("a")
		batches, _ = r.disk.applied()
		b.lose("d", 4)
		b.other("1")
		r = newRig(t, b, batches, nil, "s").start()
		r.wantRead(2, true)
	})
	bubble(t, "nothing has changed, and a new leader knew less for a moment", func(t *testing.T) {
		b, batches := filled(t, nil)
		whole, looks := b.logs["d"].messages, 0
		b.looks(func(context.Context, []string) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.logs["d"].messages = whole[:min(1+looks, len(whole))]
			looks++
			return nil
		})
		r := newRig(t, b, batches, nil, "s").start()
		r.wantRead(1, false)
	})
}

func TestReleaseStreams(t *testing.T) {
	release := func(o *stream.Options) { o.Streams[0].Release = true }
	bubble(t, "one that lost something forgets its progress and reads all", func(t *testing.T) {
		b, batches := filled(t, release)
		b.lose("d", 2)
		r := newRig(t, b, batches, release, "s").start()
		r.wantSeen("s", "a b")
		all, _ := r.disk.applied()
		if last := all[len(batches)]; len(last.Forget) != 1 {
			t.Errorf("the first batch is %+v", last)
		}
	})
	bubble(t, "one that lost something stops where messages have expired", func(t *testing.T) {
		b, batches := filled(t, release)
		b.expire("d", 1)
		b.lose("d", 2)
		r := newRig(t, b, batches, release, "s").start()
		if err := r.stopOf("s"); !errors.Is(err, sink.ErrBehind) || !strings.Contains(err.Error(), "rebuild") {
			t.Errorf("the stream stops with %v", err)
		}
	})
	bubble(t, "one whose topic begins late goes on, and that stays known", func(t *testing.T) {
		b, batches := filled(t, release)
		b.says(ours("d", 5, 4))
		b.says(ours("e", 5, 5))
		b.expire("d", 4)
		r := newRig(t, b, batches, release, "s").start()
		r.wantSeen("s", "e")
		if g := r.registration("s", "d"); g.Number != 1 || !g.Late {
			t.Errorf("registration %+v", g)
		}
	})
	bubble(t, "messages of it are never late", func(t *testing.T) {
		b := newBus("d")
		b.says(ours("a", 5, 1))
		b.says(ours("b", 4, 1))
		newRig(t, b, nil, release, "s").start().wantNext("s", "d", 2)
	})
}
