package shard_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
)

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
		b.tick = time.Minute
		b.insertRows(3, true)
		b.run(t)
		b.saved(t, 3)
		b.bus.Wipe()
		for _, destination := range b.destinations {
			b.bus.Create(destination)
		}
		b.table.Insert("again", "1", "0")
		b.saved(t, 4)
		list, err := b.store.Lookup(t.Context(), "items", store.Asks(entity("again")), nil)
		if err != nil {
			t.Fatal(err)
		}
		image, err := b.store.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
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
			list, err := b.store.Lookup(t.Context(), "items", store.Asks(entity(entityName(0)), entity(entityName(2))), nil)
			if err != nil {
				t.Fatal(err)
			}
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
	b.opts.GapTTL, b.opts.HotFor, b.opts.SweepEvery = time.Nanosecond, time.Millisecond, time.Millisecond
	b.table.Insert("a")
	b.table.InsertAt(3, "c")
	s, stop := b.run(t)
	eventually(t, "unpolled", func() bool { return s.Status().Gaps.Unpolled == 1 })
	stop()
	b.table.InsertAt(2, "b")
	killed := *b
	killed.sink, killed.opts.ShutdownTimeout = deafSink{b.bus}, time.Millisecond
	s, stop = killed.run(t)
	named := reconcile.Nomination{Rows: []source.Range{{First: 1, Last: 3}}}
	eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
	nominating := s
	go func() { _, _ = nominating.Nominate(t.Context(), named) }() // it is killed
	eventually(t, "published", func() bool { return b.count(topic) == 3 })
	stop()
	s, stop = b.run(t)
	if v := nominate(t, s, named); v != (reconcile.Verdict{}) {
		t.Errorf("verdict %+v", v)
	}
	stop()
	if got := b.ids(topic); !slices.Equal(got, []uint64{1, 3, 2}) {
		t.Errorf("published %v", got)
	}
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
