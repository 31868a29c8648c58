package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func (b *bench) deadLetters(t testing.TB) []shard.DeadLetter {
	t.Helper()
	var list []shard.DeadLetter
	for _, m := range b.bus.Messages(deadTopic) {
		l := must.Get(sink.ParseDeadLetter(m.Value))(t)
		list = append(list, shard.DeadLetterOf(&l))
	}
	return list
}

func refuseText(text string) func(*sink.Message) string {
	return func(m *sink.Message) string {
		if m.Destination == topic && bytes.Contains(m.Value, []byte(text)) {
			return "too large"
		}
		return ""
	}
}

// resend sends dead letters again and returns what became of them, as in "same done": "same" is one
// that was published as the event that it was.
func resend(t testing.TB, s *shard.Shard, deadLetters []shard.DeadLetter, dry bool) string {
	t.Helper()
	return statesOf(resendAll(t, s, deadLetters, dry), deadLetters)
}

func resendAll(t testing.TB, s *shard.Shard, deadLetters []shard.DeadLetter, dry bool) []shard.ResendOutcome {
	t.Helper()
	eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	outcomes := must.Get(s.Resend(ctx, deadLetters, dry))(t)
	return outcomes
}

func statesOf(outcomes []shard.ResendOutcome, deadLetters []shard.DeadLetter) string {
	var list []string
	for i, o := range outcomes {
		if o.State == shard.ResendPublished && o.Event == deadLetters[i].Event {
			o.State = "same"
		}
		list = append(list, string(o.State))
	}
	return strings.Join(list, " ")
}

func expectStates(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the dead letters are %q, want %q", got, want)
	}
}

// newRefusedRows has published 5 rows, of which 2, 3 and 4 are dead letters.
func newRefusedRows(t *testing.T, as event.Format, row string) *stage {
	b := newBench(t)
	b.format, b.opts.Format = as, sinkFormats[as]
	s := b.play(t, "dead-letters; ttl 1h; refuse 2 4; times 5 row "+row+"; run-to 5; accept")
	b.opts.DeadLetterLimit = shard.NewDeadLetterLimit("items", 1)
	b.opts.Text = func(err error) string { return "in full: " + err.Error() }
	s.play("run; reaches")
	return s
}

var sinkFormats = map[event.Format]sink.Format{"": 0, event.FormatCloudEvents: sink.FormatCloudEvents, event.FormatRow: sink.FormatRow}

var errAway = errors.New("the server does not answer")

type awaySource struct{ source.Shard }

func (awaySource) Traits(context.Context) (source.Traits, error) { return source.Traits{}, errAway }

func TestResendOfAReleaseRow(t *testing.T) {
	for format, of := range sinkFormats {
		for name, row := range map[string]string{"with a time of its own": "name old", "whose time is the clock of the read": "name"} {
			t.Run(fmt.Sprintf("a row %s is the same event, however often, in the format %q", name, format), func(t *testing.T) {
				s := newRefusedRows(t, format, row)
				s.play("resend same same same; resend-first same; ids 1 5 2-4 2; alike items 2 5")
				for i, l := range s.deadLetters(t) {
					m := s.bus.Messages(topic)[2+i]
					if m.ID != l.Event || m.Format != of || sink.Digest(m.Value) != l.Digest || m.Origin != sink.FromReconcile || l.Time.IsZero() {
						t.Errorf("dead letter %+v was sent as %+v", l, m)
					}
					// Where the value does not say it, a header tells the time of the event.
					if (m.Bare != nil) != (format == event.FormatRow) || m.Bare != nil && m.Bare.Time != l.Time.UnixMilli() {
						t.Errorf("the headers say %+v of %+v", m.Bare, l)
					}
				}
			})
		}
	}
	t.Run("one that is refused again is a dead letter again, the same one, and counts toward no limit", func(t *testing.T) {
		newRefusedRows(t, "", "name old").play("refuse 2 3; resend refused refused same; dead 5; alike dead 0 3; is running")
	})
	t.Run("a row that the tail has yet to publish is left to it", func(t *testing.T) {
		s := newRefusedRows(t, "", "name old")
		six := []shard.DeadLetter{{Row: 6, Event: "x"}}
		expectStates(t, resend(t, s.shard, six, false), "left")
		s.play("begin name old; insert 1; saved 7")
		expectStates(t, resend(t, s.shard, six, false), "left")
		s.play("commit; has 6")
	})
	t.Run("a dead letter without a time cannot be sent under one id for ever", func(t *testing.T) {
		s := newRefusedRows(t, "", "name")
		l := s.deadLetters(t)[0]
		l.Time = time.Time{}
		outcomes, err := s.shard.Resend(t.Context(), []shard.DeadLetter{l}, false)
		if err != nil || outcomes[0].State != shard.ResendLeft || !strings.Contains(outcomes[0].Why, "no time of its own") {
			t.Errorf("%+v, %v", outcomes, err)
		}
		s.play("ids 1 5")
	})
	t.Run("so does one that stopped in the middle of a batch, where the limit of dead letters ended it", func(t *testing.T) {
		b := newBench(t)
		b.opts.DeadLetterLimit = shard.NewDeadLetterLimit("items", 1)
		// What was not acknowledged as a whole is read back, also while the shard is stopped.
		b.play(t, "dead-letters; insert 5; refuse 2 4; run; stopped; saved 2; stop")
		outcomes, err := b.process(t).shard.Preview(t.Context(), b.deadLetters(t))
		if expectStates(t, statesOf(outcomes, b.deadLetters(t)), "same"); err != nil {
			t.Error(err)
		}
	})
	t.Run("and one whose ids have no order by now says so", func(t *testing.T) {
		b := newRefusedRows(t, "", "name old")
		b.opts.IDOrder = source.OrderNone
		if _, err := b.bench.process(t).shard.Preview(t.Context(), b.deadLetters(t)); !errors.Is(err, source.ErrUnfit) {
			t.Errorf("Preview returns %v", err)
		}
	})
	t.Run("and nothing that does not run waits for a source that is away", func(t *testing.T) {
		b := newRefusedRows(t, "", "name old")
		b.source = awaySource{b.table}
		sh := b.bench.process(t).shard
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := sh.Preview(ctx, b.deadLetters(t)); !errors.Is(err, errAway) {
			t.Errorf("Preview returns %v", err)
		}
		sh.ServeDryRun(ctx)
		expectText(t, stopped(t, sh), "ask how ids are handed out: "+errAway.Error())
	})
	t.Run("a row that cannot be read holds up the tail only while somebody waits for it", func(t *testing.T) {
		b := newBench(t)
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
		s := b.play(t, "dead-letters; insert 5; refuse 2 4; run; saved 5; accept")
		broken.Store(true)
		ctx, leave := context.WithCancel(t.Context())
		go func() { <-asked; leave() }()
		if _, err := s.shard.Resend(ctx, b.deadLetters(t), false); !errors.Is(err, context.Canceled) {
			t.Errorf("Resend returns %v", err)
		}
		s.play("insert 1; saved 6; ids 1 5 6")
	})
}

// refusedEntity has a bus tell "Added a=ok" and "Added b=ok", and refuse what a change made of a.
func refusedEntity(t *testing.T, refused, change string) *stage {
	s := newViewBench(t, true).play(t, "dead-letters; row a ok 0 now; row b ok 0 now; refuse "+refused)
	s.play("run; said Added a=ok, Added b=ok;" + change + "; dead 1; accept")
	return s
}

func TestResendOfAnEntity(t *testing.T) {
	const large, deleted = "update 1 a large 0 now", "update 1 a ok 1 now"
	for name, c := range map[string]struct{ refused, change, script string }{
		"the same event is sent again, and again": {"large", large, `
			resend same; said Modified a=large; event 2 id=dead previous=0 origin=reconcile;
			resend same; said Modified a=large; alike items 2 3;
			update 1 a small 0 now; said Modified a=small; event 4 previous=2; resend done`},
		"where the bytes cannot be the same an event follows on the one that was refused, once": {"large", "row c large 0 now", `
			replace c large 0 now; resend published; said Added c=large; event 2 unlike=dead previous=dead; resend done; said`},
		"but not on a server that proves no absence": {"large", large, "delete 1; server another replica; resend left; said"},
		"a tombstone is sent again":                  {"TOMBSTONE", deleted, "resend same; said Deleted a; event 2 id=dead reason=TOMBSTONE"},
		"and told as gone where its row is": {"TOMBSTONE", deleted, `
			delete 1; resend published; said Deleted a; event 2 reason=ABSENT_IN_SNAPSHOT; resend done; said`},
		"refused again it is a dead letter of its own, and the view goes on from there": {"large", large, `
			refuse large; resend refused; said; dead 2; alike dead 0 1; update 1 a large 0 old; resend-first refused;
			accept; resend done done same; said Modified a=large`},
	} {
		t.Run(name, func(t *testing.T) { refusedEntity(t, c.refused, c.change).play(c.script) })
	}
	t.Run("where other tables may have it the stream proves that it is gone, and tells what is true", func(t *testing.T) {
		s := newViewBench(t, true).play(t, "shared; dead-letters; row a large 0 now; refuse large; run; dead 1; accept; delete 1")
		expectStates(t, resend(t, s.shard, s.deadLetters(t), false), "published")
		s.play("said Deleted a; event 0 previous=dead")
	})
	t.Run("a delete of what is gone is the same event, too", func(t *testing.T) {
		s := newViewBench(t, false).play(t, `
			dead-letters; row a ok 0; run; said Added a=ok; refuse ABSENT_IN_SNAPSHOT; delete 1; nominate a; accept;
			resend same; said Deleted a; event 1 id=dead`)
		l := s.deadLetters(t)[0]
		l.Previous = ""
		expectStates(t, resend(t, s.shard, []shard.DeadLetter{l}, false), "published")
	})
	t.Run("a dead letter without its entity is found by its row, one about nothing that is known is not", func(t *testing.T) {
		s := refusedEntity(t, "large", large)
		l := s.deadLetters(t)[0]
		if string(l.Entity) != "a" {
			t.Fatalf("the dead letter tells the entity %q", l.Entity)
		}
		l.Entity = nil
		never, bad, old := l, l, s.deadLetters(t)[0]
		never.Entity, bad.Entity, old.Event = entity("never was"), []byte{9}, ""
		states := resend(t, s.shard, []shard.DeadLetter{l, never, bad, old, {Row: 99, Event: l.Event}}, false)
		expectStates(t, states, "same left left done left")
	})
	t.Run("two dead letters of one event have one outcome", func(t *testing.T) {
		s := refusedEntity(t, "large", large)
		for _, dry := range []bool{true, false} {
			expectStates(t, resend(t, s.shard, slices.Repeat(s.deadLetters(t), 2), dry), "same same")
		}
		s.play("said Modified a=large")
	})
	t.Run("a row that makes no event is left, and stops no shard", func(t *testing.T) {
		b := newViewBench(t, false)
		b.badValue = event.StopOnBad
		s := b.play(t, "dead-letters; row a large 0; refuse large; run; dead 1; accept")
		b.table.Update(1, "a", "no UTF-8: \xff", "0")
		s.play("resend left; row b ok 0; said Added b=ok")
	})
	t.Run("what a reconcile publishes once nobody waits counts toward the limit", func(t *testing.T) {
		b := newViewBench(t, false)
		b.play(t, "dead-letters; row a large 0; row b large 0; refuse large; run-to 2")
		b.opts.DeadLetterLimit = shard.NewDeadLetterLimit("items", 1)
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
		s := newViewBench(t, false).play(t, "missing; run; stopped")
		if _, err := s.shard.Resend(t.Context(), []shard.DeadLetter{{Row: 1, Event: "x"}}, false); err == nil {
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
			b.play(t, "dead-letters; row a large 0; refuse large; run-to 1; accept")
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
