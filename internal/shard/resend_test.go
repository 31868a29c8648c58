package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/sink"
	"example.org/bridge/source"
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
	outcomes, err := s.Resend(ctx, deadLetters, dry)
	if err != nil {
		t.Fatal(err)
	}
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

// expectStates fails unless this became of dead letters.
func expectStates(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the dead letters are %q, want %q", got, want)
	}
}

// newRefusedRows is a bench that has published 5 rows, of which 2, 3 and 4 are dead letters.
func newRefusedRows(t *testing.T, as event.Format, row ...string) (*bench, *shard.Shard) {
	b := newBench(t)
	b.format, b.opts.Format = as, sinkFormats[as]
	b.opts.DeadLetter, b.opts.GapTTL = deadTopic, time.Hour
	for range 5 {
		b.table.Insert(row...)
	}
	b.bus.Reject(refuseRows(2, 4))
	b.runTo(t, 5)
	b.bus.Reject(nil)
	b.opts.DeadLetterLimit = shard.NewDeadLetterLimit("items", 1, false)
	b.opts.Text = func(err error) string { return "in full: " + err.Error() }
	s, _ := b.run(t)
	return b, s
}

// sinkFormats are the formats of messages by those of events.
var sinkFormats = map[event.Format]sink.Format{"": 0, event.FormatCloudEvents: sink.FormatCloudEvents, event.FormatRow: sink.FormatRow}

var errAway = errors.New("the server does not answer")

// awaySource is a source that is away.
type awaySource struct{ source.Shard }

func (awaySource) Traits(context.Context) (source.Traits, error) { return source.Traits{}, errAway }

func TestResendOfAReleaseRow(t *testing.T) {
	for format, of := range sinkFormats {
		for name, row := range map[string][]string{"with a time of its own": {"name", old}, "whose time is the clock of the read": {"name"}} {
			t.Run(fmt.Sprintf("a row %s is the same event, however often, in the format %q", name, format), func(t *testing.T) {
				b, s := newRefusedRows(t, format, row...)
				expectStates(t, resend(t, s, b.deadLetters(t), true), "same same same")
				if got := b.ids(topic); len(got) != 2 {
					t.Errorf("published %v dry", got)
				}
				expectStates(t, resend(t, s, b.deadLetters(t), false), "same same same")
				expectStates(t, resend(t, s, b.deadLetters(t)[:1], false), "same")
				if got := b.ids(topic); !slices.Equal(got, []uint64{1, 5, 2, 3, 4, 2}) {
					t.Errorf("published %v", got)
				}
				all := b.bus.Messages(topic)
				for i, l := range b.deadLetters(t) {
					m := all[2+i]
					if m.ID != l.Event || m.Format != of || sink.Digest(m.Value) != l.Digest || m.Origin != sink.FromReconcile || l.Time.IsZero() {
						t.Errorf("dead letter %+v was sent as %+v", l, m)
					}
					// Where the value does not say it, a header tells the time of the event.
					if (m.Bare != nil) != (format == event.FormatRow) || m.Bare != nil && m.Bare.Time != l.Time.UnixMilli() {
						t.Errorf("the headers say %+v of %+v", m.Bare, l)
					}
				}
				if !bytes.Equal(all[2].Value, all[5].Value) {
					t.Errorf("a repeat differs: %s, %s", all[2].Value, all[5].Value)
				}
			})
		}
	}
	t.Run("one that is refused again is a dead letter again, the same one, and counts toward no limit", func(t *testing.T) {
		b, s := newRefusedRows(t, "", "name", old)
		b.bus.Reject(refuseRows(2, 3))
		before := b.bus.Messages(deadTopic)
		expectStates(t, resend(t, s, b.deadLetters(t), false), "refused refused same")
		if after := b.bus.Messages(deadTopic); len(after) != 5 || !bytes.Equal(after[3].Value, before[0].Value) || after[3].ID != before[0].ID {
			t.Errorf("%d dead letters", len(after))
		}
		if got := s.Status().State; got != shard.Running {
			t.Errorf("it is %s", got)
		}
	})
	t.Run("a row that the tail has yet to publish is left to it", func(t *testing.T) {
		b, s := newRefusedRows(t, "", "name", old)
		expectStates(t, resend(t, s, []shard.DeadLetter{{Row: 6, Event: "x"}}, false), "left")
		open := b.table.Open("name", "2020-01-01 00:00:00.000000")
		b.insert(1)
		b.saved(t, 7)
		expectStates(t, resend(t, s, []shard.DeadLetter{{Row: 6, Event: "x"}}, false), "left")
		b.table.Commit(open)
		eventually(t, "published", func() bool { return slices.Contains(b.ids(topic), 6) })
	})
	t.Run("a dead letter without a time cannot be sent under one id for ever", func(t *testing.T) {
		b, s := newRefusedRows(t, "", "name")
		l := b.deadLetters(t)[0]
		l.Time = time.Time{}
		eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
		outcomes, err := s.Resend(t.Context(), []shard.DeadLetter{l}, false)
		if err != nil || outcomes[0].State != shard.ResendLeft || !strings.Contains(outcomes[0].Why, "no time of its own") {
			t.Errorf("%+v, %v", outcomes, err)
		}
		if got := b.ids(topic); len(got) != 2 {
			t.Errorf("published %v", got)
		}
	})
	t.Run("so does one that stopped in the middle of a batch, where the limit of dead letters ended it", func(t *testing.T) {
		b := newBench(t)
		b.insert(5)
		b.opts.DeadLetter, b.opts.DeadLetterLimit = deadTopic, shard.NewDeadLetterLimit("items", 1, false)
		b.bus.Reject(refuseRows(2, 4))
		s, stop := b.run(t)
		stopped(t, s)
		// What was not acknowledged as a whole is read back, also while the shard is stopped.
		b.saved(t, 2)
		stop()
		outcomes, err := b.process(t).shard.Preview(t.Context(), b.deadLetters(t))
		if expectStates(t, statesOf(outcomes, b.deadLetters(t)), "same"); err != nil {
			t.Error(err)
		}
	})
	t.Run("and one whose ids have no order by now says so", func(t *testing.T) {
		b, _ := newRefusedRows(t, "", "name", old)
		b.opts.IDOrder = source.OrderNone
		if _, err := b.process(t).shard.Preview(t.Context(), b.deadLetters(t)); !errors.Is(err, source.ErrUnfit) {
			t.Errorf("Preview returns %v", err)
		}
	})
	t.Run("and nothing that does not run waits for a source that is away", func(t *testing.T) {
		b, _ := newRefusedRows(t, "", "name", old)
		b.source = awaySource{b.table}
		sh := b.process(t).shard
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
		b.saved(t, 5)
		b.bus.Reject(nil)
		broken.Store(true)
		ctx, leave := context.WithCancel(t.Context())
		go func() { <-asked; leave() }()
		if _, err := s.Resend(ctx, b.deadLetters(t), false); !errors.Is(err, context.Canceled) {
			t.Errorf("Resend returns %v", err)
		}
		b.insert(1)
		b.saved(t, 6)
		if got := b.ids(topic); !slices.Equal(got, []uint64{1, 5, 6}) {
			t.Errorf("published %v", got)
		}
	})
}
