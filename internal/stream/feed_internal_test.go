package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/published"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
)

// lateFeed is the feed of a stream with one table, and the store that it writes: that takes nothing
// for which fault returns an error.
type lateFeed struct {
	*Feed
	t     *testing.T
	kept  store.Store
	fault func(*store.Batch) error
}

type lateStore struct {
	store.Store
	f *lateFeed
}

func (s lateStore) Apply(ctx context.Context, b *store.Batch) error {
	if s.f.fault != nil {
		if err := s.f.fault(b); err != nil {
			return err
		}
	}
	return s.Store.Apply(ctx, b)
}

// newLateFeed returns a feed of a process that has started on a store. Bound is how many entities
// may wait for their owners.
func newLateFeed(t *testing.T, kept store.Store, bound int) *lateFeed {
	v := NewView("s", kept, func(tp uint32) uint32 { return tp })
	movers := NewMovers(v, MoversOptions{
		Bound: bound,
		Read: func(_ context.Context, _ string, entities [][]byte) (FoundRows, error) {
			return FoundRows{Rows: make([][]Found, len(entities)), Unproved: true}, nil
		},
		Publish: func(context.Context, string, []Move) error { return nil },
	})
	f := &lateFeed{t: t, kept: kept}
	f.Feed = NewFeed(FeedOptions{
		Stream: "s", View: v, Movers: movers, Store: kept, Shards: []FeedShard{{Name: "a"}}, Known: []string{"gone"},
		Committer: NewCommitter(lateStore{kept, f}, store.Image{}, outage.New(slog.New(slog.DiscardHandler))),
	})
	answers := store.Part{Kind: store.Reconcile, Number: store.AnsweringRun, Bytes: []byte("1")}
	must.OK(t, kept.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{{Key: store.Key{Stream: "s", Shard: "a"}, Parts: []store.Part{answers}}}}))
	// Else a reconcile is due because the store was empty.
	must.OK(t, f.Follow(t.Context()))
	return f
}

func (f *lateFeed) read(messages []Message) error {
	return f.Apply(f.t.Context(), messages, nil, Cover{})
}

// late applies late messages of a shard, of the entities from a number to below another one.
func (f *lateFeed) late(shard string, from, to int) {
	f.t.Helper()
	var messages []Message
	for i := from; i < to; i++ {
		messages = append(messages, Message{
			Stream: "s", Shard: shard, Row: uint64(i + 1), Key: fmt.Append(nil, i), Event: [16]byte{1}, Origin: sink.FromTail, Late: true,
			State: sink.State{Epoch: 5, Seq: uint64(i + 1), Digest: [16]byte{1}}, At: store.At{TP: 1, Offset: uint64(i)}, Time: time.Now(),
		})
	}
	must.OK(f.t, f.read(messages))
}

// want fails the test unless so many entities wait, and a reconcile of the table is due or not by
// the store: then none that has begun answers it.
func (f *lateFeed) want(waiting int, due bool) {
	f.t.Helper()
	p, _, err := f.kept.Progress(f.t.Context(), store.Key{Stream: "s", Shard: "a"})
	must.OK(f.t, err)
	answers := false
	for _, err := range f.kept.Parts(f.t.Context(), store.Key{Stream: "s", Shard: "a"}, store.Reconcile, 0) {
		must.OK(f.t, err)
		answers = true
	}
	if got := f.opts.Movers.Waiting(); got != waiting || p.ReconcileDue != due || answers == due {
		f.t.Errorf("%d entities wait, want %d; a reconcile is due: %v, want %v; one that has begun answers it: %v", got, waiting, p.ReconcileDue, due, answers)
	}
}

func (f *lateFeed) ready() {
	f.t.Helper()
	must.OK(f.t, f.Ready(f.t.Context()))
}

// decide has the owners decide all, and the store forget that.
func (f *lateFeed) decide() {
	f.t.Helper()
	for f.opts.Movers.Waiting() > 0 {
		if _, _, err := f.opts.Movers.Pass(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
	must.OK(f.t, f.ForgetDecided(f.t.Context()))
}

// TestLateEntitiesAreNamedInTheStore (rule 7): those of a table that is no more in the
// configuration, too. Each start nominates them until the store could forget them.
func TestLateEntitiesAreNamedInTheStore(t *testing.T) {
	kept, full := memory.New(), errors.New("the disk is full")
	newLateFeed(t, kept, 0).late("a", 0, 2)
	newLateFeed(t, kept, 0).late("gone", 2, 3)
	f := newLateFeed(t, kept, 0)
	f.late("a", 3, 5)
	f.want(0, false)
	f.ready()
	f.want(5, false)
	f.late("a", 5, 6)
	f.want(6, false)
	for f.opts.Movers.Waiting() > 0 {
		if _, _, err := f.opts.Movers.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.fault = func(*store.Batch) error { return full }
	if err := f.ForgetDecided(t.Context()); !errors.Is(err, full) {
		t.Error(err)
	}
	again := newLateFeed(t, kept, 0)
	again.ready()
	again.want(6, false)
	f.fault = nil
	f.decide()
	again = newLateFeed(t, kept, 0)
	again.ready()
	again.want(0, false)
}

// TestTooManyLateEntities have a reconcile be due, in one batch with their messages.
func TestTooManyLateEntities(t *testing.T) {
	t.Run("for the store", func(t *testing.T) {
		f := newLateFeed(t, memory.New(), 0)
		f.late("a", 0, maxLate)
		f.want(0, false)
		f.late("a", 0, maxLate+1)
		f.want(0, true)
		before, _ := f.Due("a")
		f.runs("a")
		f.End("a")
		f.runs("a")
		if now, due := f.Due("a"); !due || now != before {
			t.Errorf("a table that begins again demands another reconcile: %d, %v", now, due)
		}
	})
	t.Run("for the queue", func(t *testing.T) {
		f := newLateFeed(t, memory.New(), 2)
		f.ready()
		f.late("a", 0, 5)
		f.want(2, false)
		f.decide()
		f.want(0, true)
	})
}

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

func facts(shard string, row uint64) []Message {
	return []Message{{
		Stream: "s", Shard: shard, Row: row, Key: []byte("a"), Event: [16]byte{1}, Origin: sink.FromTail,
		State: sink.State{Epoch: 5, Seq: 1, Digest: [16]byte{1}}, At: store.At{TP: 1, Offset: 1}, Time: time.Now(),
	}}
}

func (f *lateFeed) acknowledged(r *Read) error {
	return f.Apply(f.t.Context(), nil, r, Cover{})
}

func TestRowsAreKeptOfConfiguredTablesAlone(t *testing.T) {
	f := newLateFeed(t, memory.New(), 0)
	must.OK(t, errors.Join(f.read(facts("a", 7)), f.read(facts("gone", 7))))
	if kept, gone := len(f.states["a"].rows), len(f.states["gone"].rows); kept != 1 || gone != 0 {
		t.Errorf("%d rows of a table are kept, and %d of a former one", kept, gone)
	}
}

// TestAPanicHasCommittedNothing: behind a panic in a commit others commit until the stream stops.
// The store keeps a position with all ids that are missing below, and a reconcile is due for what
// was not nominated.
func TestAPanicHasCommittedNothing(t *testing.T) {
	for name, dies := range map[string]func(f *lateFeed) error{
		"of a batch":  func(f *lateFeed) error { return f.acknowledged(through("a", 200, 150)) },
		"of facts":    func(f *lateFeed) error { return f.read(facts("a", 50)) },
		"of a demand": func(f *lateFeed) error { return f.ForgetDecided(t.Context()) },
	} {
		f := newLateFeed(t, memory.New(), 0)
		f.runs("a")
		must.OK(t, f.acknowledged(through("a", 100, 50)))
		f.Feed.dropped.Add(1)
		f.fault = func(*store.Batch) error { panic("a defect") }
		if err := panics.Guard(func() error { return dies(f) }); !panics.Is(err) {
			t.Fatal(err)
		}
		f.fault = nil
		must.OK(t, f.ForgetDecided(t.Context()))
		again := newLateFeed(t, f.kept, 0)
		again.runs("a")
		if l := again.state("a").progress.Ledger(); !l.Missing(50) || l.Position() != 100 {
			t.Errorf("%s: position %d, missing: 50 %t, 150 %t", name, l.Position(), l.Missing(50), l.Missing(150))
		}
		if _, due := again.Due("a"); !due {
			t.Errorf("%s: no reconcile is due", name)
		}
	}
}

// TestAFullDiskMakesNothingGrow: a batch waits for the disk and is tried again and again, and so is
// what was read of another shard beside it (rule 25).
func TestAFullDiskMakesNothingGrow(t *testing.T) {
	f := newLateFeed(t, memory.New(), 0)
	f.runs("a")
	f.runs("b")
	parts := make(map[int]bool)
	f.fault = func(b *store.Batch) error {
		n := 0
		for i := range b.Shards {
			n += len(b.Shards[i].Parts)
		}
		parts[n] = true
		return store.ErrOutage
	}
	batch, read := through("a", 200, 50), append(facts("b", 7), facts("a", 50)...)
	for range 100 {
		if a, b := f.acknowledged(batch), f.read(read); !errors.Is(a, store.ErrOutage) || !errors.Is(b, store.ErrOutage) {
			t.Fatal(a, b)
		}
	}
	if n := len(f.state("b").progress.noted); len(parts) > 2 || n > 0 {
		t.Errorf("so many parts change from try to try: %v; %d rows are noted and not taken in", parts, n)
	}
	f.fault = nil
	must.OK(t, errors.Join(f.acknowledged(batch), f.read(read)))
	again := newLateFeed(t, f.kept, 0)
	again.runs("a")
	again.runs("b")
	if l := again.state("a").progress.Ledger(); l.Position() != 200 || l.Missing(50) || !again.state("b").progress.Ahead(7) {
		t.Errorf("position %d, missing: 50 %t, or the row of b was not taken in", l.Position(), l.Missing(50))
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
	must.OK(t, f.acknowledged(r))
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
	must.OK(t, f.ChangeRepublish(t.Context(), []string{"a"}, func(string, *Republish) (*Republish, error) { return asked, nil }))
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
	must.OK(t, f.acknowledged(r))
	if r := shown(); r.Cursor != 40 || r.Rows != 40 {
		t.Errorf("after a batch: %+v", r)
	}
	for _, state := range []RepublishState{RepublishDone, Republishing} {
		r := through("a", 100)
		r.Republished = &Republished{Number: 1, Cursor: 100, State: state}
		must.OK(t, f.acknowledged(r))
		if r := shown(); r.State != state {
			t.Errorf("once it is %s: %+v", state, r)
		}
	}
}

func TestTheBusTellsTheRowsThatAListOfAnOlderBuildHides(t *testing.T) {
	s := memory.New()
	head := binary.BigEndian.AppendUint64([]byte{2}, 77)
	head = append(binary.AppendVarint(head, 5), "\x04db-1"...)
	part := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{1, 9}, 3), 4)
	must.OK(t, s.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{{Key: store.Key{Stream: "s", Shard: "a"}, Parts: []store.Part{
		{Kind: store.Published, Number: 0, Bytes: head}, {Kind: store.Published, Number: 9, Bytes: part},
	}}}}))
	f := newLateFeed(t, s, 10)
	newest := []published.Row{{ID: 9, Content: 7, Identity: 8}, {ID: 10, Content: 1, Identity: 2}}
	origin := published.Origin{Shape: 5, Server: "db-1/shop", Started: 3}
	f.SetNewest("a", newest, origin)
	_, list, err := f.Begin(t.Context(), "a", ledger.Options{Order: source.OrderStrict, MaxBytes: 1}, 16)
	must.OK(t, err)
	if list.Origin() != origin || len(list.Rows()) != 2 {
		t.Errorf("the list has %+v of %+v", list.Rows(), list.Origin())
	}
}

// TestNamesOfShardsAreBounded: a partition may have messages of any number of tables.
func TestNamesOfShardsAreBounded(t *testing.T) {
	tp := &topicPartition{shards: make(map[string]string)}
	for i := range 5 * mostNames {
		if name := fmt.Sprint("t", i); tp.shard([]byte(name)) != name || len(tp.shards) > mostNames {
			t.Fatalf("%d names are kept behind %s", len(tp.shards), name)
		}
	}
}
