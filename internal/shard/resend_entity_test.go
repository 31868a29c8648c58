package shard_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// refusedEntity is a bench that has told "Added a=ok" and "Added b=ok", and whose bus has refused
// what a change made of a.
type refusedEntity struct {
	*bench
	t *testing.T
	s *shard.Shard
}

func newRefusedEntity(t *testing.T, refused string, change func(b *bench)) *refusedEntity {
	b := newViewBench(t, true)
	b.opts.DeadLetter = deadTopic
	b.table.Insert("a", "ok", "0", now())
	b.table.Insert("b", "ok", "0", now())
	b.bus.Reject(refuseText(refused))
	s, _ := b.run(t)
	b.expectSaid(t, "Added a=ok", "Added b=ok")
	change(b)
	eventually(t, "the dead letter", func() bool { return b.count(deadTopic) == 1 })
	b.bus.Reject(nil)
	return &refusedEntity{b, t, s}
}

// resends sends all dead letters again, and fails the test unless this became of them, as a dry
// resend has said, and the bus says want behind the two first events. It returns the first dead
// letter and what was sent.
func (r *refusedEntity) resends(states string, want ...string) (dead shard.DeadLetter, sent []said) {
	r.t.Helper()
	dry := resendAll(r.t, r.s, r.deadLetters(r.t), true)
	real := resendAll(r.t, r.s, r.deadLetters(r.t), false)
	expectStates(r.t, statesOf(real, r.deadLetters(r.t)), states)
	for i := range real {
		if dry[i] != real[i] && real[i].State != shard.ResendRefused {
			r.t.Errorf("a dry resend says %+v, the resend %+v", dry[i], real[i])
		}
	}
	return r.deadLetters(r.t)[0], r.expectSaid(r.t, append([]string{"Added a=ok", "Added b=ok"}, want...)...)[2:]
}

func TestResendOfAnEntity(t *testing.T) {
	large := func(b *bench) { b.table.Update(1, "a", "large", "0", now()) }
	deleted := func(b *bench) { b.table.Update(1, "a", "ok", "1", now()) }

	t.Run("the same event is sent again, and again", func(t *testing.T) {
		r := newRefusedEntity(t, "large", large)
		dead, sent := r.resends("same", "Modified a=large")
		if sent[0].id != dead.Event || sent[0].predecessor != r.said(t)[0].id || sent[0].origin != sink.FromReconcile {
			t.Errorf("sent %+v", sent[0])
		}
		r.resends("same", "Modified a=large", "Modified a=large")
		if messages := r.bus.Messages(topic); !bytes.Equal(messages[2].Value, messages[3].Value) {
			t.Errorf("a repeat differs: %s", messages[3].Value)
		}
		r.table.Update(1, "a", "small", "0", now())
		all := r.expectSaid(t, "Added a=ok", "Added b=ok", "Modified a=large", "Modified a=large", "Modified a=small")
		if all[4].predecessor != all[2].id {
			t.Errorf("%+v does not follow it", all[4])
		}
		expectStates(t, resend(t, r.s, r.deadLetters(t), false), "done")
	})
	t.Run("where the bytes cannot be the same an event follows on the one that was refused, once", func(t *testing.T) {
		r := newRefusedEntity(t, "large", func(b *bench) { b.table.Insert("c", "large", "0", now()) })
		r.table.Replace("c", "large", "0", now())
		dead, sent := r.resends("published", "Added c=large")
		if sent[0].id == dead.Event || sent[0].predecessor != dead.Event {
			t.Errorf("%+v, the dead letter is %+v", sent[0], dead)
		}
		r.resends("done", "Added c=large")
	})
	t.Run("but not on a server that proves no absence", func(t *testing.T) {
		r := newRefusedEntity(t, "large", large)
		r.table.Delete(1)
		r.table.Move("another", true)
		r.resends("left")
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
		expectStates(t, resend(t, s, b.deadLetters(t), false), "published")
		if all := b.expectSaid(t, "Deleted a"); all[0].predecessor != b.deadLetters(t)[0].Event {
			t.Errorf("%+v", all[0])
		}
	})
	t.Run("a tombstone is sent again", func(t *testing.T) {
		dead, sent := newRefusedEntity(t, "TOMBSTONE", deleted).resends("same", "Deleted a")
		if sent[0].id != dead.Event || sent[0].reason != "TOMBSTONE" {
			t.Errorf("sent %+v", sent[0])
		}
	})
	t.Run("and told as gone where its row is", func(t *testing.T) {
		r := newRefusedEntity(t, "TOMBSTONE", deleted)
		r.table.Delete(1)
		if _, sent := r.resends("published", "Deleted a"); sent[0].reason != "ABSENT_IN_SNAPSHOT" {
			t.Errorf("sent %+v", sent[0])
		}
		r.resends("done", "Deleted a")
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
		expectStates(t, resend(t, s, b.deadLetters(t), false), "same")
		l := b.deadLetters(t)[0]
		if all := b.expectSaid(t, "Added a=ok", "Deleted a"); all[1].id != l.Event {
			t.Errorf("sent %+v", all[1])
		}
		l.Previous = ""
		expectStates(t, resend(t, s, []shard.DeadLetter{l}, false), "published")
	})
	t.Run("refused again it is a dead letter of its own, and the view goes on from there", func(t *testing.T) {
		r := newRefusedEntity(t, "large", large)
		r.bus.Reject(refuseText("large"))
		r.resends("refused")
		if dead := r.bus.Messages(deadTopic); len(dead) != 2 || !bytes.Equal(dead[1].Value, dead[0].Value) {
			t.Errorf("%d dead letters", len(dead))
		}
		r.table.Update(1, "a", "large", "0", "2020-01-01 00:00:00.000000")
		expectStates(t, resend(t, r.s, r.deadLetters(t)[:1], false), "refused")
		r.bus.Reject(nil)
		r.resends("done done same", "Modified a=large")
	})
	t.Run("a dead letter without its entity is found by its row, one about nothing that is known is not", func(t *testing.T) {
		r := newRefusedEntity(t, "large", large)
		l := r.deadLetters(t)[0]
		if string(l.Entity) != string(entity("a")) {
			t.Fatalf("the dead letter tells the entity %q", l.Entity)
		}
		l.Entity = nil
		never, bad, old := l, l, r.deadLetters(t)[0]
		never.Entity, bad.Entity, old.Event = entity("never was"), []byte{9}, ""
		states := resend(t, r.s, []shard.DeadLetter{l, never, bad, old, {Row: 99, Event: l.Event}}, false)
		expectStates(t, states, "same left left done left")
	})
	t.Run("two dead letters of one event have one outcome", func(t *testing.T) {
		r := newRefusedEntity(t, "large", large)
		twice := slices.Repeat(r.deadLetters(t), 2)
		expectStates(t, resend(t, r.s, twice, true), "same same")
		expectStates(t, resend(t, r.s, twice, false), "same same")
		r.expectSaid(t, "Added a=ok", "Added b=ok", "Modified a=large")
	})
	t.Run("a row that makes no event is left, and stops no shard", func(t *testing.T) {
		b := newViewBench(t, false)
		b.opts.DeadLetter, b.badValue = deadTopic, event.StopOnBad
		b.table.Insert("a", "large", "0")
		b.bus.Reject(refuseText("large"))
		s, _ := b.run(t)
		eventually(t, "the dead letter", func() bool { return b.count(deadTopic) == 1 })
		b.bus.Reject(nil)
		b.table.Update(1, "a", "no UTF-8: \xff", "0")
		expectStates(t, resend(t, s, b.deadLetters(t), false), "left")
		b.table.Insert("b", "ok", "0")
		b.expectSaid(t, "Added b=ok")
	})
	t.Run("what a reconcile publishes once nobody waits counts toward the limit", func(t *testing.T) {
		b := newViewBench(t, false)
		b.opts.DeadLetter = deadTopic
		b.table.Insert("a", "large", "0")
		b.table.Insert("b", "large", "0")
		b.bus.Reject(refuseText("large"))
		b.runTo(t, 2)
		b.opts.DeadLetterLimit = shard.NewDeadLetterLimit("items", 1, false)
		ctx, leave := context.WithCancel(t.Context())
		b.hook = func(q source.Query) error {
			if len(q.Keys) < 2 || ctx.Err() != nil {
				return nil
			}
			leave()
			return errors.New("the page is damaged")
		}
		s, _ := b.run(t)
		eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
		if _, err := s.Resend(ctx, b.deadLetters(t), false); !errors.Is(err, context.Canceled) {
			t.Errorf("Resend returns %v", err)
		}
		_, err := s.Nominate(t.Context(), reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 2}}})
		if stopped(t, s); err == nil {
			t.Error("two rows were refused, the limit is 1")
		}
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
	for steps, done := 0, false; !done; steps++ {
		instantly(t, "step", func(t *testing.T) {
			b := newViewBench(t, false)
			b.opts.DeadLetter = deadTopic
			b.table.Insert("a", "large", "0")
			b.bus.Reject(refuseText("large"))
			b.runTo(t, 1)
			b.bus.Reject(nil)
			l := b.deadLetters(t)[0]
			l.Time = time.Time{}
			killed, mortal := reap(steps), *b
			mortal.sink, mortal.store = reapedSink{b.bus, killed}, reapedStore{b.store, killed}
			mortal.opts.ShutdownTimeout = time.Millisecond
			p := mortal.process(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = p.run(ctx) })
			running.Go(func() {
				select {
				case <-killed.dead:
					cancel(errors.New("killed"))
				case <-ctx.Done():
				}
			})
			eventually(t, "reaches or dies", func() bool { _, ok := p.shard.Reach(); return ok || ctx.Err() != nil })
			_, err := p.shard.Resend(ctx, []shard.DeadLetter{l}, false)
			done = err == nil
			cancel(nil)
			running.Wait()
			b.table.Update(1, "a", "small", "0")
			s, _ := b.run(t)
			nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 1}}})
			// Each event follows the one before, repeats aside, and the last says what is true.
			all, last := b.said(t), l.Event
			for _, one := range all {
				if one.predecessor != last && one.id != last {
					t.Fatalf("killed after %d steps: %+v", steps, all)
				}
				last = one.id
			}
			if n := len(all); n == 0 || all[n-1].text != "Modified a=small" || done && steps < 4 {
				t.Errorf("killed after %d steps: %v", steps, texts(all))
			}
		})
	}
}
