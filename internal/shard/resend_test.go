package shard_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
)

// deadLetters returns the dead letters on the bus.
func (b *bench) deadLetters(t testing.TB) []shard.DeadLetter {
	t.Helper()
	var list []shard.DeadLetter
	for _, m := range b.bus.Messages(deadTopic) {
		l, err := sink.ParseDeadLetter(m.Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, shard.DeadLetterOf(&l))
	}
	return list
}

// refuseText refuses events that hold a text.
func refuseText(text string) func(*sink.Message) string {
	return func(m *sink.Message) string {
		if m.Destination == topic && bytes.Contains(m.Value, []byte(text)) {
			return "too large"
		}
		return ""
	}
}

// resend sends dead letters again and returns their fates, as in "same current".
func resend(t testing.TB, s *shard.Shard, deadLetters []shard.DeadLetter, dry bool) string {
	t.Helper()
	eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	outcomes, err := s.Resend(ctx, deadLetters, dry)
	if err != nil {
		t.Fatal(err)
	}
	return fates(outcomes)
}

func fates(outcomes []shard.ResendOutcome) string {
	var list []string
	for _, o := range outcomes {
		list = append(list, string(o.Fate))
	}
	return strings.Join(list, " ")
}

// expectFates fails unless dead letters have these fates.
func expectFates(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the dead letters are %q, want %q", got, want)
	}
}

func TestResendOfAReleaseRow(t *testing.T) {
	// newRefused has published 5 rows, of which 2, 3 and 4 are dead letters.
	newRefused := func(t *testing.T, created string) (*bench, *shard.Shard) {
		b := newBench(t)
		b.opts.DeadLetter, b.opts.GapTTL = deadTopic, time.Hour
		for range 5 {
			if created == "" {
				b.table.Insert("name")
			} else {
				b.table.Insert("name", created)
			}
		}
		b.bus.Reject(refuseRows(2, 4))
		_, stop := b.run(t)
		eventually(t, "drained", func() bool { return b.position(t) == 5 })
		stop()
		b.bus.Reject(nil)
		b.opts.DeadLetterLimit = shard.NewDeadLetterLimit("items", 1)
		s, _ := b.run(t)
		return b, s
	}
	for name, created := range map[string]string{"with a time of its own": "2020-01-01 00:00:00.000000", "whose time is the clock of the read": ""} {
		t.Run("a row "+name+" is the same event, however often", func(t *testing.T) {
			b, s := newRefused(t, created)
			expectFates(t, resend(t, s, b.deadLetters(t), true), "same same same")
			if got := b.ids(topic); len(got) != 2 {
				t.Errorf("published %v dry", got)
			}
			expectFates(t, resend(t, s, b.deadLetters(t), false), "same same same")
			expectFates(t, resend(t, s, b.deadLetters(t)[:1], false), "same")
			if got := b.ids(topic); !slices.Equal(got, []uint64{1, 5, 2, 3, 4, 2}) {
				t.Errorf("published %v", got)
			}
			all := b.bus.Messages(topic)
			for i, l := range b.deadLetters(t) {
				if m := all[2+i]; m.ID != l.Event || sink.Digest(m.Value) != l.Digest || m.Origin != sink.FromReconcile {
					t.Errorf("dead letter %+v was sent as %+v", l, m)
				}
			}
			if !bytes.Equal(all[2].Value, all[5].Value) {
				t.Errorf("a repeat differs: %s, %s", all[2].Value, all[5].Value)
			}
		})
	}
	t.Run("a row that was changed since is the fact that it is, one that is gone is none", func(t *testing.T) {
		b, s := newRefused(t, "2020-01-01 00:00:00.000000")
		b.table.Update(2, "other", "2020-01-01 00:00:00.000000")
		b.table.Update(3, "name", "2020-01-01 00:00:01.000000")
		b.table.Delete(4)
		expectFates(t, resend(t, s, b.deadLetters(t), false), "current current gone")
		if got := b.ids(topic); !slices.Equal(got, []uint64{1, 5, 2, 3}) {
			t.Errorf("published %v", got)
		}
		if all := b.bus.Messages(topic); all[2].ID == b.deadLetters(t)[0].Event || all[3].ID != b.deadLetters(t)[1].Event {
			t.Error("another state has the id of the dead letter, or the same state another one")
		}
	})
	t.Run("one that is refused again is a dead letter again, the same one, and counts toward no limit", func(t *testing.T) {
		b, s := newRefused(t, "2020-01-01 00:00:00.000000")
		b.bus.Reject(refuseRows(2, 3))
		before := b.bus.Messages(deadTopic)
		expectFates(t, resend(t, s, b.deadLetters(t), false), "refused refused same")
		if after := b.bus.Messages(deadTopic); len(after) != 5 || !bytes.Equal(after[3].Value, before[0].Value) || after[3].ID != before[0].ID {
			t.Errorf("%d dead letters", len(after))
		}
		if got := s.Status().State; got != shard.Running {
			t.Errorf("it is %s", got)
		}
	})
	t.Run("a row that the tail has yet to publish is left to it", func(t *testing.T) {
		b, s := newRefused(t, "2020-01-01 00:00:00.000000")
		expectFates(t, resend(t, s, []shard.DeadLetter{{Row: 6, Event: "x"}}, false), "ahead")
		open := b.table.Open("name", "2020-01-01 00:00:00.000000")
		b.insert(1)
		eventually(t, "drained", func() bool { return b.position(t) == 7 })
		expectFates(t, resend(t, s, []shard.DeadLetter{{Row: 6, Event: "x"}}, false), "ahead")
		b.table.Commit(open)
		eventually(t, "published", func() bool { return slices.Contains(b.ids(topic), 6) })
	})
	t.Run("a dead letter without a time cannot be sent under one id for ever", func(t *testing.T) {
		b, s := newRefused(t, "")
		l := b.deadLetters(t)[0]
		l.Time = time.Time{}
		expectFates(t, resend(t, s, []shard.DeadLetter{l}, false), "unreadable")
		if got := b.ids(topic); len(got) != 2 {
			t.Errorf("published %v", got)
		}
	})
	t.Run("a shard that does not run shows what would be sent", func(t *testing.T) {
		b, _ := newRefused(t, "2020-01-01 00:00:00.000000")
		b.table.Delete(4)
		outcomes, err := b.process(t).shard.Preview(t.Context(), b.deadLetters(t))
		if expectFates(t, fates(outcomes), "same same gone"); err != nil || b.count(topic) != 2 {
			t.Errorf("%v, published %v", err, b.ids(topic))
		}
	})
	t.Run("so does one that stopped in the middle of a batch, where the limit of dead letters ended it", func(t *testing.T) {
		b := newBench(t)
		b.insert(5)
		b.opts.DeadLetter, b.opts.DeadLetterLimit = deadTopic, shard.NewDeadLetterLimit("items", 1)
		b.bus.Reject(refuseRows(2, 4))
		s, stop := b.run(t)
		eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
		// What was not acknowledged as a whole is read back, also while the shard is stopped.
		eventually(t, "read back", func() bool { return b.position(t) == 2 })
		stop()
		outcomes, err := b.process(t).shard.Preview(t.Context(), b.deadLetters(t))
		if expectFates(t, fates(outcomes), "same"); err != nil {
			t.Error(err)
		}
	})
	t.Run("and one whose ids have no order by now says so", func(t *testing.T) {
		b, _ := newRefused(t, "2020-01-01 00:00:00.000000")
		b.opts.IDOrder = source.OrderNone
		if _, err := b.process(t).shard.Preview(t.Context(), b.deadLetters(t)); !errors.Is(err, source.ErrUnfit) {
			t.Errorf("Preview returns %v", err)
		}
	})
	t.Run("a row that cannot be read holds up the tail only while somebody waits for it", func(t *testing.T) {
		b := newBench(t)
		b.opts.DeadLetter = deadTopic
		b.insert(5)
		b.bus.Reject(refuseRows(2, 4))
		var broken atomic.Bool
		asked := make(chan struct{}, 1)
		b.hook = func(q source.Query) error {
			if !broken.Load() || len(q.Ranges) == 0 {
				return nil
			}
			select {
			case asked <- struct{}{}:
			default:
			}
			return errors.New("the page of the row is damaged")
		}
		s, _ := b.run(t)
		eventually(t, "drained", func() bool { return b.position(t) == 5 })
		b.bus.Reject(nil)
		broken.Store(true)
		ctx, leave := context.WithCancel(t.Context())
		go func() { <-asked; leave() }()
		if _, err := s.Resend(ctx, b.deadLetters(t), false); !errors.Is(err, context.Canceled) {
			t.Errorf("Resend returns %v", err)
		}
		b.insert(1)
		eventually(t, "the tail goes on", func() bool { return b.position(t) == 6 })
		if got := b.ids(topic); !slices.Equal(got, []uint64{1, 5, 6}) {
			t.Errorf("published %v", got)
		}
	})
}

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
	t.Run("an added one, too", func(t *testing.T) {
		b, s := newRefused(t, func(b *bench) { b.table.Insert("c", "large", "0", now()) })
		expectFates(t, resend(t, s, b.deadLetters(t), false), "same")
		if all := b.expectSaid(t, "Added a=ok", "Added b=ok", "Added c=large"); all[2].id != b.deadLetters(t)[0].Event {
			t.Errorf("sent %+v", all[2])
		}
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
	t.Run("a state that changed unseen is told as it is", func(t *testing.T) {
		b, s := newRefused(t, updated)
		b.table.Update(1, "a", "small", "0", "2020-01-01 00:00:00.000000")
		expectFates(t, resend(t, s, b.deadLetters(t), false), "current")
		b.expectSaid(t, "Added a=ok", "Added b=ok", "Modified a=small")
		expectFates(t, resend(t, s, b.deadLetters(t), false), "superseded")
	})
	t.Run("an entity that is gone is told as deleted", func(t *testing.T) {
		b, s := newRefused(t, updated)
		b.table.Delete(1)
		expectFates(t, resend(t, s, b.deadLetters(t), false), "current")
		all := b.expectSaid(t, "Added a=ok", "Added b=ok", "Deleted a")
		if all[2].reason != "ABSENT_IN_SNAPSHOT" || all[2].predecessor != b.deadLetters(t)[0].Event {
			t.Errorf("%+v", all[2])
		}
		expectFates(t, resend(t, s, b.deadLetters(t), false), "superseded")
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
	t.Run("a shard that does not run shows what would be sent", func(t *testing.T) {
		b, _ := newRefused(t, updated)
		// The other process stores the entity's entry behind its dead letter.
		eventually(t, "the same event", func() bool {
			outcomes, err := b.process(t).shard.Preview(t.Context(), b.deadLetters(t))
			return err == nil && fates(outcomes) == "same"
		})
		b.expectSaid(t, "Added a=ok", "Added b=ok")
	})
	t.Run("a shard that has stopped sends nothing", func(t *testing.T) {
		b := newViewBench(t, false)
		b.table.Fail(-1, source.ErrMissing)
		s, _ := b.run(t)
		eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
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
		_, stop := b.run(t)
		eventually(t, "saved", func() bool { return b.position(t) == 1 })
		stop()
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
		s, stop = b.run(t)
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
