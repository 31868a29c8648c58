package shard_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/shard"
	"example.org/bridge/sink"
	sinkmemory "example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

func refuseRows(first, last uint64) func(*sink.Message) string {
	return func(m *sink.Message) string {
		if m.Destination == topic && m.RowID >= first && m.RowID <= last {
			return "too large"
		}
		return ""
	}
}

func TestTheLimitOfDeadLetters(t *testing.T) {
	t.Run("rows are counted within a minute, and once", func(t *testing.T) {
		l, start := shard.NewDeadLetterLimit("items", 2), time.Unix(1000, 0)
		for _, c := range []struct {
			row   uint64
			after time.Duration
			full  bool
		}{
			{1, 0, false},
			{1, time.Second, false},
			{2, 2 * time.Second, false},
			{1, 3 * time.Second, false},
			{3, time.Minute, false},
			{4, time.Minute + time.Second, true},
			{5, time.Hour, true},
		} {
			if err := l.Count(c.row, start.Add(c.after), ""); (err != nil) != c.full {
				t.Errorf("row %d after %s: %v", c.row, c.after, err)
			}
		}
	})
	t.Run("rows that share an id are counted by key", func(t *testing.T) {
		l := shard.NewDeadLetterLimit("items", 2)
		for _, key := range []string{"a", "b", "a"} {
			if err := l.Count(1, time.Unix(1000, 0), key); err != nil {
				t.Errorf("row %s: %v", key, err)
			}
		}
		if err := l.Count(1, time.Unix(1001, 0), "c"); err == nil {
			t.Error("a third row of the id passes")
		}
	})
}

// TestADeadLetterThatTheBusDropsAsARepeat though it holds it no more is sent again: neither the row
// nor a dead letter of it would be on the bus.
func TestADeadLetterThatTheBusDropsAsARepeat(t *testing.T) {
	again := func(m *sink.Message) string {
		if m.Destination == topic && m.RowID == 2 && m.Again {
			return "too large"
		}
		return ""
	}
	second := refuseRows(2, 2)
	for name, refusals := range map[string][]func(*sink.Message) string{
		"of a message behind one that is sent again":   {second, second},
		"of a message that is refused when sent again": {second, nil, again},
		"of the first message":                         {second, refuseRows(1, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.bus = sinkmemory.New(sinkmemory.Options{Stream: "S", Duplicates: time.Hour})
			b.bus.Create(topic)
			b.bus.Create(deadTopic)
			b.opts.DeadLetter = deadTopic
			b.insert(3)
			for _, refuse := range refusals {
				rows, dead := b.count(topic), b.count(deadTopic)
				b.bus.Reject(refuse)
				b.runTo(t, 3)
				// Messages that have expired do not count.
				all := append(b.ids(topic)[rows:], b.ids(deadTopic)[dead:]...)
				if slices.Sort(all); !slices.Equal(slices.Compact(all), []uint64{1, 2, 3}) {
					t.Errorf("rows %v are on the bus, want 1, 2 and 3", all)
				}
				b.lose(noStore, nil)
				b.bus.Expire("S", 1000)
			}
		})
	}
}

func count(t *testing.T, from prometheus.Gatherer, name string) (n float64) {
	families := must.Get(from.Gather())(t)
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			n = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return n
}

func TestABatchIsSentAsAWhole(t *testing.T) {
	begin := func(t *testing.T, large ...int) *bench {
		b := newBench(t)
		b.sink = &transactor{Sink: b.bus, transactions: &coordinator{bus: b.bus}}
		for id := range 5 {
			size := 1
			if slices.Contains(large, id+1) {
				size += lifeMaxBytes
			}
			b.table.Insert(strings.Repeat("x", size), old)
		}
		return b
	}
	t.Run("with dead letters instead of refused rows, and smaller ones where those are refused", func(t *testing.T) {
		b := begin(t, 2, 4)
		counted := prometheus.NewRegistry()
		b.opts.Metrics = shard.NewMetrics(counted, false)
		b.play(t, "dead-letters; run-to 5; ids 1 3 5; dead 2")
		for name, want := range map[string]float64{"bridge_rejected_total": 2, "bridge_dead_letters_total": 2, "bridge_records_total": 3} {
			if got := count(t, counted, name); got != want {
				t.Errorf("%s is %g, want %g", name, got, want)
			}
		}
		if n := b.bus.Publishes(); n != 1 {
			t.Errorf("%d batches", n)
		}
	})
	t.Run("a refused row without a dead-letter destination stops the shard behind those before it", func(t *testing.T) {
		begin(t, 3).play(t, "run; stopped; stop; ids 1-2")
	})
}

// TestARefusedRowWithoutDeadLetters stops the shard before it, and a restart goes on there without
// a repeat.
func TestARefusedRowWithoutDeadLetters(t *testing.T) {
	// What the bus has of the batch may have been read back.
	newBench(t).play(t, `insert 250; refuse 150 150; run; stopped; stop; ids 1-149; position 100 149;
		error row 150; error too large; error DEAD_LETTER; accept; run-to 250; ids 1-250`)
}

func TestADeadLetterThatIsRefusedToo(t *testing.T) {
	b := newBench(t)
	b.bus.Reject(func(m *sink.Message) string {
		if m.RowID == 5 {
			return "no"
		}
		return ""
	})
	b.play(t, "dead-letters; insert 10; run; stopped; position 0 4")
}

// refuseLate has the bus refuse events that hold a text, and returns those that it has refused: an
// earlier attempt to send each may have been under way.
func (b *bench) refuseLate(text string) (refused *[]sink.Message) {
	refused = new([]sink.Message)
	refuse := refuseText(text)
	b.bus.Reject(func(m *sink.Message) string {
		why := refuse(m)
		if why != "" {
			kept := *m
			kept.Key, kept.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
			*refused = append(*refused, kept)
		}
		return why
	})
	return refused
}

func (b *bench) arrive(t *testing.T, m sink.Message) {
	t.Helper()
	if out, err := b.bus.Publish(t.Context(), []sink.Message{m}); err != nil || !out.AllAcked() || out.Duplicates > 0 {
		t.Fatalf("the late message is not stored: %+v, %v", out, err)
	}
}

// TestAMessageThatIsADeadLetterAndLate has an event of a be a dead letter, and its message arrive
// in the topic all the same. In the end the topic says what is true, and the next event links to
// what lies there.
func TestAMessageThatIsADeadLetterAndLate(t *testing.T) {
	// 11 and the numbers of the cases of each kind have no common divisor.
	every, n := testall.Cases(11, 1), 0
	for name, then := range map[string]string{
		"nothing":                               "",
		"its row changes":                       "replace a 3",
		"its row changes back":                  "replace a 1",
		"its row changes back in place":         "update a 1",
		"its row is marked":                     "touch a 2 marked",
		"its row is gone":                       "remove a",
		"it goes to another table as it was":    "move a 2",
		"it goes to another table, and changes": "move a 3",
	} {
		for _, model := range []model{plain, kafka, jetStream} {
			for _, kept := range []keep{wholeStore, olderCopy, noStore} {
				for _, runs := range []bool{true, false} {
					// older says that the message before arrives once more behind it.
					for _, older := range []bool{false, true} {
						if n++; n%every != 0 {
							continue
						}
						name := fmt.Sprintf("%s, then it arrives on %s, with store %d, while a process runs %t, an older one behind it %t", name, model.name, kept, runs, older)
						instantly(t, name, func(t *testing.T) { deadAndLate(t, model, kept, runs, older, then) })
					}
				}
			}
		}
	}
}

func deadAndLate(t *testing.T, bus model, kept keep, runs, older bool, then string) {
	l := newLife(t, bus, 2)
	l.kept, l.opts.DeadLetter = kept, deadTopic
	l.destinations = append(l.destinations, deadTopic)
	l.create()
	l.begin(t)
	copied := copyStore(l.store)
	first := l.bus.Messages(topic)[slices.IndexFunc(l.bus.Messages(topic), func(m sink.Message) bool { return string(m.Key) == "a" })]
	refused := l.refuseLate(`"value":"2"`)
	l.happen("replace a 2")
	l.lived(t)
	l.bus.Reject(nil)
	if len(*refused) != 1 || l.count(deadTopic) != 1 {
		t.Fatalf("%d messages were refused, there are %d dead letters", len(*refused), l.count(deadTopic))
	}
	l.happen(then)
	l.lived(t)
	l.lose(kept, copied)
	l.late = true
	arrives := func() {
		l.arrive(t, (*refused)[0])
		if older {
			first.Again = true
			l.arrive(t, first)
		}
	}
	if !runs {
		arrives()
	}
	p, stop := l.begun(t)
	if runs {
		arrives()
	}
	l.read(t)
	l.reconciled(t, p.shards)
	stop()
	l.agrees(t)
	l.explain(t)
	l.saysNothingNew(t)
	_, last := l.events(t)
	l.happen("replace a 9")
	l.lived(t)
	of, now := l.events(t)
	events := of["a"]
	if n := len(events) - 1; now["a"] != "9" || last["a"] != "" && events[n].predecessor == "" {
		t.Errorf("a ends as %q, behind %q", now["a"], events[n].predecessor)
	}
	l.explain(t)
}

// A row of a release stream that is a dead letter, and whose message arrives late, counts once.
func TestARowThatIsADeadLetterAndLate(t *testing.T) {
	for _, kept := range []keep{wholeStore, olderCopy, noStore} {
		for _, runs := range []bool{true, false} {
			instantly(t, fmt.Sprintf("with store %d, while a process runs %t", kept, runs), func(t *testing.T) {
				b := newBench(t)
				s := b.play(t, "dead-letters; insert 2; run-to 2; copy")
				refused := b.refuseLate(`"row":{"source":"db","table":"items","id":4}`)
				s.play("insert 3; run-to 5; accept")
				b.lose(kept, s.copied)
				if runs {
					s.play("run; saved 5")
				}
				b.arrive(t, (*refused)[0])
				if !runs {
					s.play("run")
				}
				s.play("insert 1; saved 6; polls 200; stop; ids 1-3 5 4 6")
				if n := b.count(deadTopic); n != 1 {
					t.Errorf("%d dead letters", n)
				}
			})
		}
	}
}
