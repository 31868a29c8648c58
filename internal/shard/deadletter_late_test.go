package shard_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"example.org/bridge/sink"
	"example.org/bridge/tests/testall"
)

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

// arrive has the bus store a message late.
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
	for name, then := range map[string]func(l *life){
		"nothing":                               func(*life) {},
		"its row changes":                       func(l *life) { l.replace("a", "3", "0") },
		"its row changes back":                  func(l *life) { l.replace("a", "1", "0") },
		"its row changes back in place":         func(l *life) { l.update("a", "1", "0", false) },
		"its row is marked":                     func(l *life) { l.update("a", "2", "1", true) },
		"its row is gone":                       func(l *life) { l.remove("a") },
		"it goes to another table as it was":    func(l *life) { l.move("a", "2") },
		"it goes to another table, and changes": func(l *life) { l.move("a", "3") },
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

func deadAndLate(t *testing.T, bus model, kept keep, runs, older bool, then func(*life)) {
	l := newLife(t, bus, 2)
	l.kept, l.opts.DeadLetter = kept, deadTopic
	l.destinations = append(l.destinations, deadTopic)
	l.create()
	l.begin(t)
	copied := copyStore(t, l.store)
	first := l.bus.Messages(topic)[slices.IndexFunc(l.bus.Messages(topic), func(m sink.Message) bool { return string(m.Key) == "a" })]
	refused := l.refuseLate(`"value":"2"`)
	l.replace("a", "2", "0")
	l.lived(t)
	l.bus.Reject(nil)
	if len(*refused) != 1 || l.count(deadTopic) != 1 {
		t.Fatalf("%d messages were refused, there are %d dead letters", len(*refused), l.count(deadTopic))
	}
	then(l)
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
	l.replace("a", "9", "0")
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
				b.opts.DeadLetter = deadTopic
				b.insert(2)
				b.runTo(t, 2)
				copied := copyStore(t, b.store)
				refused := b.refuseLate(`"row":{"source":"db","table":"items","id":4}`)
				b.insert(3)
				b.runTo(t, 5)
				b.bus.Reject(nil)
				b.lose(kept, copied)
				stop := func() {}
				if runs {
					_, stop = b.run(t)
					b.saved(t, 5)
				}
				b.arrive(t, (*refused)[0])
				if !runs {
					_, stop = b.run(t)
				}
				b.insert(1)
				b.saved(t, 6)
				b.polls(t, 200)
				stop()
				if got := b.ids(topic); !slices.Equal(got, []uint64{1, 2, 3, 5, 4, 6}) || b.count(deadTopic) != 1 {
					t.Errorf("published %v, with %d dead letters", got, b.count(deadTopic))
				}
			})
		}
	}
}
