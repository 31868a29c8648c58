package shard_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// losses are what is left of a store of which a copy was made.
var losses = []string{"restore", "lost"}

// TestAReleaseStreamIsReadBack: rows on the bus are not published again, also where their messages
// have expired. Rows that it lacks are, also below those that it has.
func TestAReleaseStreamIsReadBack(t *testing.T) {
	for start, ids := range map[string]string{"": "1-200", "latest": "51-200"} {
		for _, loss := range losses {
			instantly(t, fmt.Sprintf("with the store %s, START=%s", loss, start), func(t *testing.T) {
				newBench(t).play(t, start+`; insert 50; run; saved 50; begin late old; insert 49; saved 100; copy; insert 50; saved 150; stop;`+
					loss+"; insert 50; run; saved 200; commit; has 51; polls 5; stop; sorted-ids "+ids)
			})
		}
	}
}

// TestTheBusLostItsTail (rule 21): what it has lost is published again.
func TestTheBusLostItsTail(t *testing.T) {
	for name, then := range map[string]string{
		"and nothing has changed":                      "",
		"and the entity is as it was":                  "replace a 1",
		"and the entity has changed":                   "replace a 3",
		"and the entity is gone":                       "remove a",
		"and the entity is as it was, in the same row": "update a 1",
	} {
		instantly(t, name, func(t *testing.T) {
			l := newLife(t, plain, 1)
			l.begin(t)
			l.happen("replace a 2")
			l.lived(t)
			l.bus.Lose(topic, 1)
			l.happen(then)
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
	for _, loss := range losses {
		// The last message says that all before it was published.
		instantly(t, "of a release stream is not published again, with the store "+loss, func(t *testing.T) {
			newBench(t).play(t, `batch 10; insert 50; run-to 50; copy; insert 50; run-to 100; insert 1; run-to 101; expire 100;`+
				loss+"; insert 1; run; saved 102; polls 5; stop; ids 1-102")
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

// gatedSink publishes a batch for each token at its gate, and all once that is closed.
type gatedSink struct {
	sink.Sink
	gate chan struct{}
}

func (s gatedSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	select {
	case <-s.gate:
		return s.Sink.Publish(ctx, batch)
	case <-ctx.Done():
		return sink.Outcome{Status: make([]sink.Status, len(batch))}, context.Cause(ctx)
	}
}

// silentSink is a bus that tells no offsets, as a broker that only knows that it has a batch.
type silentSink struct{ sink.Sink }

func (s silentSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	out, err := s.Sink.Publish(ctx, batch)
	clear(out.At)
	return out, err
}

// TestATopicThatIsMadeAgainIsRegistered as soon as it has a message that was acknowledged: its
// entry says where that lies, so that a loss is noticed (rule 10).
func TestATopicThatIsMadeAgainIsRegistered(t *testing.T) {
	instantly(t, "before anything is looked up", func(t *testing.T) {
		b := newViewBench(t, false)
		s := b.play(t, "look 1m; row a 1 0; row b 1 0; row c 1 0; run; saved 3")
		b.bus.Wipe()
		for _, destination := range b.destinations {
			b.bus.Create(destination)
		}
		s.play("row again 1 0; saved 4")
		list := must.Get(b.store.Lookup(t.Context(), "items", storetest.Asks(entity("again")), nil))(t)
		image := must.Get(b.store.Load(t.Context()))(t)
		if !slices.ContainsFunc(image.Registrations, func(r store.Registration) bool {
			return r.Number == list[0].At.TP && r.TP == topic && !r.Retired
		}) {
			t.Errorf("the entry is %+v, the registrations are %+v", list[0], image.Registrations)
		}
	})
}

// lateReader does not tell of a topic before its time.
type lateReader struct {
	sink.Reader
	topic string
	from  time.Time
}

func (r lateReader) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	tps, err := r.Reader.TPs(ctx, destinations)
	return slices.DeleteFunc(tps, func(tp sink.TP) bool { return tp.Name == r.topic && time.Now().Before(r.from) }), err
}

// TestATopicThatIsNotRegisteredInTime keeps what it has acknowledged: the entries name no topic
// until its messages are read (rule 6).
func TestATopicThatIsNotRegisteredInTime(t *testing.T) {
	instantly(t, "of a capability stream", func(t *testing.T) {
		const later = "later"
		b := newViewBench(t, false)
		b.tick, b.opts.PollInterval = 30*time.Second, 100*time.Millisecond
		b.reader = lateReader{b.bus, later, time.Now().Add(10 * time.Second)}
		b.destinations = append(b.destinations, later)
		b.bus.Create(later)
		b.opts.Route = func(*event.Event) string { return later }
		b.insertRows(3, true)
		b.run(t)
		b.saved(t, 3)
		lookup := func() []store.Entry {
			list := must.Get(b.store.Lookup(t.Context(), "items", storetest.Asks(entity(entityName(0)), entity(entityName(2))), nil))(t)
			return list
		}
		for _, e := range lookup() {
			if e.State != store.Live || e.At != (store.At{}) {
				t.Errorf("before the topic is registered an entry is %+v", e)
			}
		}
		eventually(t, "the entries name the topic", func() bool {
			list := lookup()
			return list[0].At.TP != 0 && list[1].At == store.At{TP: list[0].At.TP, Offset: list[0].At.Offset + 2} && !list[1].Disputed
		})
		if n := b.count(later); n != 3 {
			t.Errorf("%d messages of 3 rows", n)
		}
	})
}

// TestRowsOfAReleaseStreamThatReconcileFoundAreReadBack: only the bus shows that they were
// published.
func TestRowsOfAReleaseStreamThatReconcileFoundAreReadBack(t *testing.T) {
	b := newBench(t)
	b.table = sourcememory.NewTable(source.Spec{Table: "items", ID: "id"},
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text})
	s := b.play(t, "gives-up; row a; at 3 c; run; unpolled 1; stop; at 2 b")
	killed := *b
	killed.sink, killed.opts.ShutdownTimeout = deafSink{b.bus}, time.Millisecond
	nominating, stop := killed.run(t)
	eventually(t, "the shard reaches", func() bool { _, ok := nominating.Reach(); return ok })
	go func() {
		_, _ = nominating.Nominate(t.Context(), reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 3}}})
	}() // it is killed
	s.play("count 3")
	stop()
	s.play("run; nominate 1-3 =; stop; ids 1 3 2")
}

// TestAReconcileIsDueWhereTheStoreWasLost, also after a restart, until one has compared the whole
// table (rule 15).
func TestAReconcileIsDueWhereTheStoreWasLost(t *testing.T) {
	l := newLife(t, plain, 1)
	l.begin(t)
	l.lose(noStore, nil)
	for start, want := range []bool{true, true, false} {
		s, stop := l.run(t)
		eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
		demand, due := s.ReconcileDue()
		if due != want {
			t.Errorf("start %d: a reconcile is due: %t, want %t", start, due, want)
		}
		if start == 1 {
			if err := s.Reconciled(t.Context(), demand); err != nil {
				t.Error(err)
			}
			if _, due := s.ReconcileDue(); due {
				t.Error("it is due still")
			}
		}
		stop()
	}
}

// TestStampsNameWhatIsLost sends a part of a batch again, as a dead letter is in it, and has the
// outcome of the next one be unknown. No seq is used twice, and the numbers of what was
// acknowledged have no gap in a term: a reader finds by them exactly what the bus has lost.
func TestStampsNameWhatIsLost(t *testing.T) {
	b := newBench(t)
	b.opts.DeadLetter, b.opts.BatchRows = deadTopic, 10
	b.bus.Reject(func(m *sink.Message) string {
		if m.RowID == 4 && m.Destination == topic {
			return "refused"
		}
		return ""
	})
	b.insert(25)
	b.runTo(t, 25)
	lost := &lostAnswer{Sink: b.bus, gate: make(chan struct{})}
	close(lost.gate)
	b.sink = lost
	b.insert(25)
	b.runTo(t, 50)
	dead := b.bus.Messages(deadTopic)
	if len(dead) != 1 || dead[0].State.Event == [16]byte{} || dead[0].State.Key != "4" || string(dead[0].Key) != "4" {
		t.Fatalf("the dead letters are %+v", dead)
	}
	type term struct {
		epoch uint64
		term  uint32
	}
	numbers, acked, seqs := make(map[term][]uint32), make(map[term]uint32), make(map[[2]uint64]bool)
	for _, m := range append(b.bus.Messages(topic), dead...) {
		s, of := m.State, term{m.State.Epoch, m.State.Term}
		if seq := [2]uint64{s.Epoch, s.Seq}; seqs[seq] || s.Seq == 0 {
			t.Errorf("row %d has the seq %d, as another", m.RowID, s.Seq)
		} else {
			seqs[seq] = true
		}
		numbers[of], acked[of] = append(numbers[of], s.Acked+s.Index), max(acked[of], s.Acked)
	}
	if len(numbers) != 3 || len(seqs) != 50 {
		t.Errorf("%d messages of %d terms: one of the first process, two of the next", len(seqs), len(numbers))
	}
	for of, list := range numbers {
		for n := range acked[of] {
			if !slices.Contains(list, n) {
				t.Errorf("a reader misses number %d of %+v", n, of)
			}
		}
		slices.Sort(list)
		if len(slices.Compact(list)) != len(list) {
			t.Errorf("numbers of %+v are used twice: %v", of, list)
		}
	}
}
