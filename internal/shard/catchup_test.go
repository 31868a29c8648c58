package shard_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestAReleaseStreamIsReadBack: rows on the bus are not published again, also where their messages
// have expired. Rows that it lacks are, also below those that it has.
func TestAReleaseStreamIsReadBack(t *testing.T) {
	for _, latest := range []bool{false, true} {
		for _, kept := range []keep{olderCopy, noStore} {
			instantly(t, fmt.Sprintf("store %d, START=latest %t", kept, latest), func(t *testing.T) {
				b := newBench(t)
				b.opts.Start.Latest = latest
				b.insert(50)
				_, stop := b.run(t)
				b.saved(t, 50)
				open := b.table.Open("late", old)
				b.insert(49)
				b.saved(t, 100)
				copied := copyStore(t, b.store)
				b.insert(50)
				b.saved(t, 150)
				stop()
				b.lose(kept, copied)
				b.insert(50)
				_, stop = b.run(t)
				b.saved(t, 200)
				b.table.Commit(open)
				eventually(t, "the late row is published", func() bool { return slices.Contains(b.ids(topic), open) })
				b.polls(t, 5)
				stop()
				got, first := b.ids(topic), uint64(1)
				if latest {
					first = 51
				}
				slices.Sort(got)
				expectRun(t, got, first, 200)
			})
		}
	}
}

// TestTheBusLostItsTail (rule 21): what it has lost is published again.
func TestTheBusLostItsTail(t *testing.T) {
	for name, then := range map[string]func(*life){
		"and nothing has changed":                      func(*life) {},
		"and the entity is as it was":                  func(l *life) { l.replace("a", "1", "0") },
		"and the entity has changed":                   func(l *life) { l.replace("a", "3", "0") },
		"and the entity is gone":                       func(l *life) { l.remove("a") },
		"and the entity is as it was, in the same row": func(l *life) { l.update("a", "1", "0", false) },
	} {
		instantly(t, name, func(t *testing.T) {
			l := newLife(t, plain, 1)
			l.begin(t)
			l.replace("a", "2", "0")
			l.lived(t)
			l.bus.Lose(topic, 1)
			then(l)
			l.lived(t)
			// What is published again may follow on the former event.
			l.late = true
			l.agrees(t)
			if of, _ := l.events(t); len(of["b"]) != 1 {
				t.Errorf("%d events of b, which the bus has not lost", len(of["b"]))
			}
			l.saysNothingNew(t)
		})
	}
}

// TestWhatHasExpired (rules 22 and 27).
func TestWhatHasExpired(t *testing.T) {
	instantly(t, "is of no account where the store has it", func(t *testing.T) {
		l := newLife(t, plain, 1)
		l.begin(t)
		l.bus.Expire(topic, 2)
		l.saysNothingNew(t)
	})
	for _, kept := range []keep{olderCopy, noStore} {
		instantly(t, fmt.Sprintf("of a release stream is not published again, with store %d", kept), func(t *testing.T) {
			b := newBench(t)
			b.opts.BatchRows = 10
			b.insert(50)
			b.runTo(t, 50)
			copied := copyStore(t, b.store)
			b.insert(50)
			b.runTo(t, 100)
			// The last message says that all before it was published.
			b.insert(1)
			b.runTo(t, 101)
			b.bus.Expire(topic, 100)
			b.lose(kept, copied)
			b.insert(1)
			_, stop := b.run(t)
			b.saved(t, 102)
			b.polls(t, 5)
			stop()
			expectRun(t, b.ids(topic), 1, 102)
		})
	}
}

// TestABusThatCannotBeReadBack: a release stream goes on from the store, and repeats what was not
// acknowledged.
func TestABusThatCannotBeReadBack(t *testing.T) {
	b := newBench(t)
	b.unread = true
	b.insert(100)
	b.runTo(t, 100)
	b.insert(50)
	killed := *b
	killed.sink, killed.opts.ShutdownTimeout = deafSink{b.bus}, time.Millisecond
	_, stop := killed.run(t)
	eventually(t, "published", func() bool { return b.count(topic) == 150 })
	stop()
	b.runTo(t, 150)
	all := b.bus.Messages(topic)
	if len(all) != 200 {
		t.Fatalf("%d messages, want 150 and 50 again", len(all))
	}
	for i := range 50 {
		if one, again := &all[100+i], &all[150+i]; one.ID != again.ID || string(one.Value) != string(again.Value) || one.State.Epoch == again.State.Epoch {
			t.Errorf("row %d is repeated as another event, or in the same epoch:\n%s\n%s", one.RowID, one.Value, again.Value)
		}
	}
}
