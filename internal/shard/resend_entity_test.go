package shard_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
)

func TestResendOfAnEntity(t *testing.T) {
	// newRefused has told "Added a=ok" and "Added b=ok"; what was refused is what change made of a.
	newRefused := func(t *testing.T, change func(b *bench)) (*bench, *shard.Shard) {
		b := newViewBench(t, true)
		b.opts.DeadLetter = deadTopic
		b.table.Insert("a", "ok", "0", now())
		b.table.Insert("b", "ok", "0", now())
		b.bus.Reject(refuseText("large"))
		s, _ := b.run(t)
		b.expectSaid(t, "Added a=ok", "Added b=ok")
		change(b)
		eventually(t, "the dead letter", func() bool { return b.count(deadTopic) == 1 })
		b.bus.Reject(nil)
		return b, s
	}
	updated := func(b *bench) { b.table.Update(1, "a", "large", "0", now()) }

	t.Run("the same event is sent again, and again", func(t *testing.T) {
		b, s := newRefused(t, updated)
		expectFates(t, resend(t, s, b.deadLetters(t), true), "same")
		expectFates(t, resend(t, s, b.deadLetters(t), false), "same")
		all := b.expectSaid(t, "Added a=ok", "Added b=ok", "Modified a=large")
		if l := b.deadLetters(t)[0]; all[2].id != l.Event || all[2].predecessor != all[0].id || all[2].origin != sink.FromReconcile {
			t.Errorf("sent %+v", all[2])
		}
		expectFates(t, resend(t, s, b.deadLetters(t), false), "same")
		messages := b.bus.Messages(topic)
		if len(messages) != 4 || !bytes.Equal(messages[2].Value, messages[3].Value) {
			t.Errorf("a repeat differs: %v", texts(b.said(t)))
		}
		b.table.Update(1, "a", "small", "0", now())
		all = b.expectSaid(t, "Added a=ok", "Added b=ok", "Modified a=large", "Modified a=large", "Modified a=small")
		if all[4].predecessor != all[2].id {
			t.Errorf("%+v does not follow it", all[4])
		}
		expectFates(t, resend(t, s, b.deadLetters(t), false), "superseded")
	})
	t.Run("where the bytes cannot be the same an event follows on the one that was refused, once", func(t *testing.T) {
		for add, want := range map[bool]string{false: "Modified a=large", true: "Added c=large"} {
			b, s := newRefused(t, func(b *bench) {
				if add {
					b.table.Insert("c", "large", "0", now())
				} else {
					updated(b)
				}
			})
			if add {
				b.table.Replace("c", "large", "0", now())
			} else {
				b.table.Update(1, "a", "large", "0", "2020-01-01 00:00:00.000000")
			}
			expectFates(t, resend(t, s, b.deadLetters(t), false), "current")
			all := b.expectSaid(t, "Added a=ok", "Added b=ok", want)
			if l := b.deadLetters(t)[0]; all[2].id == l.Event || all[2].predecessor != l.Event {
				t.Errorf("%+v, the dead letter is %+v", all[2], l)
			}
			expectFates(t, resend(t, s, b.deadLetters(t), false), "superseded")
			b.expectSaid(t, "Added a=ok", "Added b=ok", want)
		}
	})
	t.Run("but not on a server that proves no absence", func(t *testing.T) {
		b, s := newRefused(t, updated)
		b.table.Delete(1)
		b.table.Move("another", true)
		expectFates(t, resend(t, s, b.deadLetters(t), false), "unproven")
		b.expectSaid(t, "Added a=ok", "Added b=ok")
	})
	t.Run("nor where other tables may have it: the stream proves it, and tells what is true", func(t *testing.T) {
		b := newViewBench(t, true)
		b.opts.Shared, b.opts.DeadLetter = true, deadTopic
		b.table.Insert("a", "large", "0", now())
		b.bus.Reject(refuseText("large"))
		s, _ := b.run(t)
		eventually(t, "the dead letter", func() bool { return b.count(deadTopic) == 1 })
		b.bus.Reject(nil)
		b.table.Delete(1)
		expectFates(t, resend(t, s, b.deadLetters(t), false), "moved")
		if all := b.expectSaid(t, "Deleted a"); all[0].predecessor != b.deadLetters(t)[0].Event {
			t.Errorf("%+v", all[0])
		}
		expectFates(t, resend(t, s, b.deadLetters(t), false), "superseded")
	})
	t.Run("a tombstone is sent again, and told as gone where its row is", func(t *testing.T) {
		refuseDeleted := func(b *bench) {
			b.bus.Reject(refuseText("TOMBSTONE"))
			b.table.Update(1, "a", "ok", "1", now())
		}
		b, s := newRefused(t, refuseDeleted)
		expectFates(t, resend(t, s, b.deadLetters(t), false), "same")
		all := b.expectSaid(t, "Added a=ok", "Added b=ok", "Deleted a")
		if all[2].id != b.deadLetters(t)[0].Event || all[2].reason != "TOMBSTONE" {
			t.Errorf("sent %+v", all[2])
		}
		b, s = newRefused(t, refuseDeleted)
		b.table.Delete(1)
		expectFates(t, resend(t, s, b.deadLetters(t), false), "current")
		if all := b.expectSaid(t, "Added a=ok", "Added b=ok", "Deleted a"); all[2].reason != "ABSENT_IN_SNAPSHOT" {
			t.Errorf("sent %+v", all[2])
		}
		expectFates(t, resend(t, s, b.deadLetters(t), false), "superseded")
	})
	t.Run("a delete of what is gone is the same event, too", func(t *testing.T) {
		b := newViewBench(t, false)
		b.opts.DeadLetter = deadTopic
		b.table.Insert("a", "ok", "0")
		s, _ := b.run(t)
		b.expectSaid(t, "Added a=ok")
		b.bus.Reject(refuseText("ABSENT_IN_SNAPSHOT"))
		b.table.Delete(1)
		nominate(t, s, reconcile.Nomination{Entities: [][]byte{entity("a")}})
		b.bus.Reject(nil)
		expectFates(t, resend(t, s, b.deadLetters(t), false), "same")
		if all := b.expectSaid(t, "Added a=ok", "Deleted a"); all[1].id != b.deadLetters(t)[0].Event {
			t.Errorf("sent %+v", all[1])
		}
		l := b.deadLetters(t)[0]
		l.Previous = ""
		expectFates(t, resend(t, s, []shard.DeadLetter{l}, false), "current")
		expectFates(t, resend(t, s, b.deadLetters(t), false), "superseded")
	})
	t.Run("refused again it is a dead letter of its own, and the view goes on from there", func(t *testing.T) {
		b, s := newRefused(t, updated)
		b.bus.Reject(refuseText("large"))
		before := b.bus.Messages(deadTopic)
		expectFates(t, resend(t, s, b.deadLetters(t), false), "refused")
		if after := b.bus.Messages(deadTopic); len(after) != 2 || !bytes.Equal(after[1].Value, before[0].Value) {
			t.Errorf("%d dead letters", len(after))
		}
		b.table.Update(1, "a", "large", "0", "2020-01-01 00:00:00.000000")
		expectFates(t, resend(t, s, b.deadLetters(t)[:1], false), "refused")
		b.bus.Reject(nil)
		expectFates(t, resend(t, s, b.deadLetters(t), false), "superseded superseded same")
		b.expectSaid(t, "Added a=ok", "Added b=ok", "Modified a=large")
	})
	t.Run("a dead letter without its entity is found by its row, one about nothing that is known is not", func(t *testing.T) {
		b, s := newRefused(t, updated)
		l := b.deadLetters(t)[0]
		if string(l.Entity) != string(entity("a")) {
			t.Fatalf("the dead letter tells the entity %q", l.Entity)
		}
		l.Entity = nil
		never, bad, old := l, l, b.deadLetters(t)[0]
		never.Entity, bad.Entity, old.Event = entity("never was"), []byte{9}, ""
		expectFates(t, resend(t, s, []shard.DeadLetter{l, never, bad, old, {Row: 99, Event: l.Event}}, false), "same unknown unreadable superseded unknown")
	})
	t.Run("a shard that has stopped sends nothing", func(t *testing.T) {
		b := newViewBench(t, false)
		b.table.Fail(-1, source.ErrMissing)
		s, _ := b.run(t)
		stopped(t, s)
		if _, err := s.Resend(t.Context(), []shard.DeadLetter{{Row: 1, Event: "x"}}, false); err == nil {
			t.Error("it took the dead letter")
		}
	})
}

// TestAKillDuringAResend kills the shard at each of its steps: what was published is published
// again as it stands.
func TestAKillDuringAResend(t *testing.T) {
	for steps := 0; ; steps++ {
		b := newViewBench(t, false)
		b.opts.DeadLetter = deadTopic
		b.table.Insert("a", "large", "0")
		b.bus.Reject(refuseText("large"))
		b.runTo(t, 1)
		b.bus.Reject(nil)
		l := b.deadLetters(t)[0]
		l.Time = time.Time{}
		killed := reap(steps)
		mortal := *b
		mortal.sink, mortal.store = reapedSink{b.bus, killed}, reapedStore{b.store, killed}
		mortal.opts.ShutdownTimeout = time.Millisecond
		p := mortal.process(t)
		s := p.shard
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = p.run(ctx) }()
		eventually(t, "reaches or dies", func() bool {
			_, ok := s.Reach()
			select {
			case <-killed.dead:
				return true
			default:
				return ok
			}
		})
		_, err := s.Resend(killedContext(t, killed), []shard.DeadLetter{l}, false)
		cancel()
		<-ended
		b.table.Update(1, "a", "small", "0")
		s, stop := b.run(t)
		eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
		nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 1}}})
		stop()
		expectChain(t, steps, b.said(t), l.Event)
		if err == nil {
			if steps < 4 {
				t.Errorf("it was done after %d steps", steps)
			}
			t.Logf("killed at each of %d steps", steps)
			return
		}
	}
}

// killedContext ends when the shard is killed.
func killedContext(t *testing.T, r *reaper) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		select {
		case <-r.dead:
			cancel(errors.New("killed"))
		case <-ctx.Done():
		}
	}()
	return ctx
}

// expectChain fails unless each event follows the one before, repeats aside, and the last says what
// is true.
func expectChain(t *testing.T, steps int, all []said, root string) {
	t.Helper()
	last := root
	for _, one := range all {
		if one.predecessor != last && one.id != last {
			t.Fatalf("killed after %d steps: %+v", steps, all)
		}
		last = one.id
	}
	if n := len(all); n == 0 || all[n-1].text != "Modified a=small" {
		t.Fatalf("killed after %d steps: %v", steps, texts(all))
	}
}
