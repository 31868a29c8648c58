package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/published"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// runs has a shard run.
func (f *lateFeed) runs(shard string) {
	f.t.Helper()
	if _, _, err := f.Begin(f.t.Context(), shard, ledger.Options{Order: source.OrderStrict, MaxBytes: 1}, 0); err != nil {
		f.t.Fatal(err)
	}
}

// through returns what a batch brings that has read all rows through one, but for those without.
func through(shard string, last uint64, without ...uint64) *Read {
	r := &Read{Shard: shard, Through: last, At: time.Now(), Now: time.Now()}
	for id := uint64(1); id <= last; id++ {
		if !slices.Contains(without, id) {
			r.Passed = append(r.Passed, id)
		}
	}
	return r
}

// facts returns a message of a row that was read.
func facts(shard string, row uint64) []Message {
	return []Message{{
		Stream: "s", Shard: shard, Row: row, Key: []byte("a"), Event: [16]byte{1}, Origin: sink.FromTail,
		State: sink.State{Epoch: 5, Seq: 1, Digest: [16]byte{1}}, At: store.At{TP: 1, Offset: 1}, Time: time.Now(),
	}}
}

// acknowledged takes in a batch.
func (f *lateFeed) acknowledged(r *Read) error {
	return f.Apply(f.t.Context(), nil, r, Cover{})
}

func crash(*store.Batch) error { panic("a defect") }

// TestAPanicHasCommittedNothing: behind a panic in the commit of a batch, or of facts, others
// commit until the stream stops. The store keeps a position with all ids that are missing below.
func TestAPanicHasCommittedNothing(t *testing.T) {
	for name, dies := range map[string]func(f *lateFeed) error{
		"of a batch": func(f *lateFeed) error { return f.acknowledged(through("a", 200, 150)) },
		"of facts":   func(f *lateFeed) error { return f.read(facts("a", 50)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newLateFeed(t, memory.New(), 0)
			f.runs("a")
			if err := f.acknowledged(through("a", 100, 50)); err != nil {
				t.Fatal(err)
			}
			f.fault = crash
			if err := panics.Guard(func() error { return dies(f) }); !panics.Is(err) {
				t.Fatal(err)
			}
			f.fault = nil
			f.Feed.dropped.Add(1)
			if err := f.ForgetDecided(t.Context()); err != nil {
				t.Fatal(err)
			}
			again := newLateFeed(t, f.kept, 0)
			again.runs("a")
			l := again.state("a").progress.Ledger()
			if !l.Missing(50) || l.Position() != 100 {
				t.Errorf("position %d, missing: 50 %t, 150 %t", l.Position(), l.Missing(50), l.Missing(150))
			}
		})
	}
}

// TestAFullDiskMakesNothingGrow: a batch waits for the disk and is tried again and again, and so is
// what was read of another shard beside it (rule 25).
func TestAFullDiskMakesNothingGrow(t *testing.T) {
	f := newLateFeed(t, memory.New(), 0)
	f.runs("a")
	f.runs("b")
	parts := map[int]bool{}
	f.fault = func(b *store.Batch) error {
		n := 0
		for i := range b.Shards {
			n += len(b.Shards[i].Parts)
		}
		parts[n] = true
		return store.ErrOutage
	}
	r := through("a", 200, 50)
	read := append(facts("b", 7), facts("a", 50)...)
	for range 100 {
		if err := f.acknowledged(r); !errors.Is(err, store.ErrOutage) {
			t.Fatal(err)
		}
		if err := f.read(read); !errors.Is(err, store.ErrOutage) {
			t.Fatal(err)
		}
	}
	if len(parts) > 2 {
		t.Errorf("so many parts change from try to try: %v", parts)
	}
	if n := reflect.ValueOf(f.state("b").progress).Elem().FieldByName("noted").Len(); n > 0 {
		t.Errorf("%d rows are noted and not taken in", n)
	}
	f.fault = nil
	if err := f.acknowledged(r); err != nil {
		t.Fatal(err)
	}
	if err := f.read(read); err != nil {
		t.Fatal(err)
	}
	again := newLateFeed(t, f.kept, 0)
	again.runs("a")
	again.runs("b")
	if l := again.state("a").progress.Ledger(); l.Position() != 200 || l.Missing(50) {
		t.Errorf("position %d, missing: 50 %t", l.Position(), l.Missing(50))
	}
	if !again.state("b").progress.Ahead(7) {
		t.Error("the row of b was not taken in")
	}
}

// unreadStore is a store of which a part of a ledger cannot be read so often.
type unreadStore struct {
	store.Store
	faults int
}

// TestAnEntryThatIsUnreadOnce: facts are read again, and nothing else stops.
func TestAnEntryThatIsUnreadOnce(t *testing.T) {
	fault := error(syscall.EIO)
	kept := &lookedStore{memory.New(), func() error { return fault }}
	f := newLateFeed(t, kept, 0)
	if err := f.read(facts("a", 50)); !errors.Is(err, ErrUnread) {
		t.Errorf("the error is %v", err)
	}
	fault = nil
	if err := f.read(facts("a", 50)); err != nil {
		t.Error(err)
	}
}

func (s *unreadStore) Parts(ctx context.Context, key store.Key, kind store.Kind, from uint64) iter.Seq2[store.Part, error] {
	if key.Shard == "a" && kind == store.Gaps && from > 0 && s.faults > 0 {
		s.faults--
		return func(yield func(store.Part, error) bool) { yield(store.Part{}, syscall.EIO) }
	}
	return s.Store.Parts(ctx, key, kind, from)
}

// TestAPartThatIsUnreadOnce: facts of a running shard wait and are tried again, its attempt ends
// with the batch that it has made, and the stream with its other shards goes on.
func TestAPartThatIsUnreadOnce(t *testing.T) {
	kept := &unreadStore{Store: memory.New()}
	f := newLateFeed(t, kept, 0)
	f.runs("a")
	f.runs("b")
	r := &Read{Shard: "a", At: time.Now(), Now: time.Now()}
	for r.Through = 0; r.Through < 3_000_000; r.Through += 3 {
		r.Passed = append(r.Passed, r.Through+3)
	}
	if err := f.acknowledged(r); err != nil {
		t.Fatal(err)
	}
	kept.faults = 1
	if err := f.read(facts("a", 50)); !errors.Is(err, ErrUnread) {
		t.Fatalf("the error is %v", err)
	}
	if err := f.read(facts("a", 50)); err != nil || kept.faults > 0 {
		t.Fatal(err, kept.faults)
	}
	if err := f.acknowledged(through("b", 100)); err != nil {
		t.Error(err)
	}
	if err := f.acknowledged(through("a", 1)); !errors.Is(err, ErrReadBack) {
		t.Errorf("the error of the batch is %v", err)
	}
	if err := f.state("a").Err(); !errors.Is(err, ErrReadBack) {
		t.Errorf("the next batch of the attempt: %v", err)
	}
	f.End("a")
	f.runs("a")
	l := f.state("a").progress.Ledger()
	if l.Missing(50) || !l.Missing(49) || l.Position() != r.Through {
		t.Errorf("position %d, missing: 49 %t, 50 %t", l.Position(), l.Missing(49), l.Missing(50))
	}
	f.runs("a")
	kept.faults = 1
	if err := f.acknowledged(&Read{Shard: "a", Filled: []uint64{2_000_000}}); !errors.Is(err, ErrReadBack) || kept.faults > 0 {
		t.Errorf("a batch that meets the part: %v", err)
	}
}

// TestAStatusWaitsForNobody: what is published again shows while the owner has the progress.
func TestAStatusWaitsForNobody(t *testing.T) {
	f := newLateFeed(t, memory.New(), 0)
	f.runs("a")
	asked := &Republish{Number: 1, From: 1, To: 100, State: Republishing}
	if err := f.ChangeRepublish(t.Context(), []string{"a"}, func(string, *Republish) (*Republish, error) { return asked, nil }); err != nil {
		t.Fatal(err)
	}
	// It hangs here if it waits.
	shown := func() *Republish {
		_, unlock := f.state("a").Lock()
		defer unlock()
		return f.Republish("a")
	}
	if r := shown(); !r.Running() || r.Cursor != 0 {
		t.Errorf("asked: %+v", r)
	}
	r := through("a", 100)
	r.Republished = &Republished{Number: 1, Cursor: 40, Rows: 40}
	if err := f.acknowledged(r); err != nil {
		t.Fatal(err)
	}
	if r := shown(); r.Cursor != 40 || r.Rows != 40 {
		t.Errorf("after a batch: %+v", r)
	}
}

// TestAPanicForgetsNothingThatWasDropped: what was not nominated is still known behind a panic.
func TestAPanicForgetsNothingThatWasDropped(t *testing.T) {
	f := newLateFeed(t, memory.New(), 0)
	f.runs("a")
	f.overflowed()
	f.fault = crash
	if err := panics.Guard(func() error { return f.ForgetDecided(t.Context()) }); !panics.Is(err) {
		t.Fatal(err)
	}
	f.fault = nil
	if err := f.ForgetDecided(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, _, err := f.kept.Progress(t.Context(), store.Key{Stream: "s", Shard: "a"})
	if err != nil || !p.ReconcileDue {
		t.Errorf("no reconcile is due: %+v, %v", p, err)
	}
}

func TestTheBusTellsTheRowsThatAListOfAnOlderBuildHides(t *testing.T) {
	s := memory.New()
	head := binary.BigEndian.AppendUint64([]byte{2}, 77)
	head = append(binary.AppendVarint(head, 5), "\x04db-1"...)
	part := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{1, 9}, 3), 4)
	err := s.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{{Key: store.Key{Stream: "s", Shard: "a"}, Parts: []store.Part{
		{Kind: store.Published, Number: 0, Bytes: head}, {Kind: store.Published, Number: 9, Bytes: part},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	f := newLateFeed(t, s, 10)
	newest := []published.Row{{ID: 9, Content: 7, Identity: 8}, {ID: 10, Content: 1, Identity: 2}}
	origin := published.Origin{Shape: 5, Server: "db-1/shop", Started: 3}
	f.SetNewest("a", newest, origin)
	_, list, err := f.Begin(t.Context(), "a", ledger.Options{Order: source.OrderStrict, MaxBytes: 1}, 16)
	if err != nil {
		t.Fatal(err)
	}
	if list.Origin() != origin || len(list.Rows()) != 2 {
		t.Errorf("the list has %+v of %+v", list.Rows(), list.Origin())
	}
}
