package shard_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bridge/checkpoint/store"
	storememory "bridge/checkpoint/store/memory"
	"bridge/event"
	"bridge/internal/catchup"
	"bridge/internal/progress"
	"bridge/internal/shard"
	"bridge/internal/view"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// process is a run of the program with one shard: what internal/app builds, over the parts of a
// bench.
type process struct {
	shard     *shard.Shard
	catchup   *catchup.CatchUp
	committer *catchup.Committer
	movers    *view.Movers
	view      *view.View
}

// process returns a new process over the bench's parts.
func (b *bench) process(t testing.TB) *process {
	t.Helper()
	opts := b.opts
	opts.Encoder, opts.Source, opts.IDs, opts.Sink, opts.Store = b.encoder(t), b.table, b.table, b.bus, b.store
	if b.source != nil {
		opts.Source, opts.IDs = b.source, b.source
	}
	if b.hook != nil {
		opts.Source = hookedSource{opts.Source, b.hook}
	}
	if b.sink != nil {
		opts.Sink = b.sink
	}
	image, err := b.store.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p := &process{committer: catchup.NewCommitter(b.store, image, opts.Faults)}
	feed := shard.FeedOptions{
		Stream: "items", Store: b.store, Committer: p.committer,
		Shards: []shard.FeedShard{{Name: "items", Ledger: ledger.Options{Order: opts.IDOrder}, PublishedRows: opts.PublishedRows}},
	}
	if opts.Kind == event.Capability {
		p.view = view.New("items", b.store, p.committer.InForce)
		p.movers = view.NewMovers(p.view, view.MoversOptions{
			Shards: []string{"items"}, Read: b.readKeys(t, opts.Source),
			Publish: func(ctx context.Context, _ string, moves []view.Move) error { return p.shard.Publish(ctx, moves) },
			Pause:   time.Millisecond,
		})
		feed.View, feed.Movers = p.view, p.movers
	}
	opts.Feed, opts.View, opts.Movers, opts.Committer = shard.NewFeed(feed), p.view, p.movers, p.committer
	if !b.unread {
		opts.Reader = b.bus
	}
	p.catchup = catchup.New(catchup.Options{
		Reader: opts.Reader, Committer: p.committer, Image: image, Domain: opts.Domain, Log: opts.Logger,
		Streams: []catchup.Stream{{
			Name: "items", Release: opts.Kind == event.Release, Destinations: b.destinations, Hash: opts.Hash, Feed: opts.Feed,
		}},
		Superseded: func(err error) { p.shard.Stop(err) },
		Stopped:    func(_ string, err error) { p.shard.Stop(err) },
		Tick:       b.tick, IdleEvery: 5 * b.tick, AnchorsEvery: b.tick, Recheck: time.Millisecond,
	})
	opts.Recovery = p.catchup
	p.shard = shard.New(opts)
	return p
}

// encoder returns an encoder of the bench's stream.
func (b *bench) encoder(t testing.TB) *event.Encoder {
	t.Helper()
	encoder, err := event.NewEncoder(event.Options{Stream: "items", Shard: "items", Kind: b.opts.Kind, Source: "db", Table: "items", Fields: b.fields})
	if err != nil {
		t.Fatal(err)
	}
	return encoder
}

// readKeys returns what reads keys of the table for Movers.
func (b *bench) readKeys(t testing.TB, table source.Shard) func(context.Context, string, [][]byte) (view.Reading, error) {
	encoder := b.encoder(t)
	var mu sync.Mutex
	return func(ctx context.Context, _ string, keys [][]byte) (view.Reading, error) {
		mu.Lock()
		defer mu.Unlock()
		reading := view.Reading{Rows: make([][]view.Found, len(keys)), Snapshot: true}
		var page source.Page
		if err := table.Read(ctx, source.Query{Limit: 1, MaxBytes: 1}, &page); err != nil {
			return reading, err
		}
		if err := encoder.Bind(page.Columns); err != nil {
			return reading, err
		}
		at := make(map[string]int)
		q := source.Query{Limit: 10_000, MaxBytes: 1 << 20}
		for i, key := range keys {
			values, err := encoder.KeyValues(key, nil)
			if err != nil {
				return reading, err
			}
			q.Keys, at[string(key)] = append(q.Keys, values), i
		}
		if err := table.Read(ctx, q, &page); err != nil {
			return reading, err
		}
		if err := encoder.Bind(page.Columns); err != nil {
			return reading, err
		}
		traits, err := b.table.Traits(ctx)
		if err != nil {
			return reading, err
		}
		reading.Unproved = !traits.Writer
		for _, row := range page.Rows {
			d, err := encoder.Digest(row)
			if err != nil {
				return reading, err
			}
			if i, ok := at[string(d.Key)]; ok {
				reading.Rows[i] = append(reading.Rows[i], view.Found{Shard: "items", Row: row.ID, Digest: d.Sum, Deleted: d.Deleted})
			}
		}
		return reading, nil
	}
}

// run runs the process until ctx ends: then the shard ends in good order, and after it the rest. It
// returns the error of a store that is broken.
func (p *process) run(ctx context.Context) error {
	rest, end := context.WithCancel(context.WithoutCancel(ctx))
	starting, give := context.WithCancel(ctx)
	defer give()
	var beside sync.WaitGroup
	errs := make([]error, 3)
	beside.Go(func() {
		if errs[0] = p.catchup.Start(starting); errs[0] == nil {
			errs[0] = p.catchup.Run(rest)
		}
		if ctx.Err() != nil && errors.Is(errs[0], context.Canceled) {
			errs[0] = nil
		}
	})
	beside.Go(func() { errs[1] = p.committer.Run(rest) })
	if p.movers != nil {
		beside.Go(func() { errs[2] = p.movers.Run(rest, nil) })
	}
	err := p.shard.Run(ctx)
	give()
	end()
	beside.Wait()
	return errors.Join(err, errors.Join(errs...))
}

// errDead is what a store returns to a process that was killed.
var errDead = errors.New("the process is dead")

// mortalStore is a store that takes no more changes once its process is killed.
type mortalStore struct {
	store.Store
	mu   sync.Mutex
	dead bool
}

func newMortal(s store.Store) *mortalStore { return &mortalStore{Store: s} }

func (s *mortalStore) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

func (s *mortalStore) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

func (s *mortalStore) Apply(ctx context.Context, b *store.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errDead
	}
	return s.Store.Apply(ctx, b)
}

// faultyStore is a store that takes no changes while it has a fault.
type faultyStore struct {
	store.Store
	fault atomic.Pointer[error]
}

func (s *faultyStore) fail(err error) { s.fault.Store(&err) }

func (s *faultyStore) Apply(ctx context.Context, b *store.Batch) error {
	if err := s.fault.Load(); err != nil && *err != nil {
		return *err
	}
	return s.Store.Apply(ctx, b)
}

// tpOf returns the index of a TP of an outcome.
func tpOf(out *sink.Outcome, ref sink.TPRef) int32 {
	at := slices.Index(out.TPs, ref)
	if at < 0 {
		at, out.TPs = len(out.TPs), append(out.TPs, ref)
	}
	return int32(at)
}

// deafSink is a bus whose acknowledgements never come.
type deafSink struct{ sink.Sink }

func (s deafSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	if _, err := s.Sink.Publish(ctx, batch); err != nil {
		return sink.Outcome{Status: make([]sink.Status, len(batch))}, err
	}
	return reapedSink{}.unanswered(ctx, len(batch))
}

// wait lets time pass that the test is about.
func wait(t testing.TB, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// hookedSource lets a test act before a read of rows.
type hookedSource struct {
	source.Shard
	before func(q source.Query) error
}

func (h hookedSource) Read(ctx context.Context, q source.Query, p *source.Page) error {
	if err := h.before(q); err != nil {
		return err
	}
	return h.Shard.Read(ctx, q, p)
}

// apply applies what a command changes in the store.
func (b *bench) apply(t testing.TB, change func(*store.Image) *store.Batch) {
	t.Helper()
	image, err := b.store.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.store.Apply(context.Background(), change(&image)); err != nil {
		t.Fatal(err)
	}
}

// set is bridge checkpoint set.
func (b *bench) set(t testing.TB, id uint64) {
	t.Helper()
	b.apply(t, func(image *store.Image) *store.Batch {
		batch, _, err := progress.Set{Key: key, Kind: b.opts.Kind, ID: id, Epoch: progress.NextEpoch(image, time.Now()), Now: time.Now()}.Batch(t.Context(), b.store)
		if err != nil {
			t.Fatal(err)
		}
		return batch
	})
}

// copyStore returns a store with what s has of the stream: a copy that is restored later.
func copyStore(t testing.TB, s store.Store) store.Store {
	t.Helper()
	ctx, to := context.Background(), storememory.New()
	image, err := s.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{Epoch: image.Epoch, Registrations: image.Registrations}
	for k, p := range image.Shards {
		change := store.ShardChange{Key: k, Progress: &p}
		for kind := store.Gaps; kind <= store.MeaningPart; kind++ {
			for part, err := range s.Parts(ctx, k, kind, 0) {
				if err != nil {
					t.Fatal(err)
				}
				change.Parts = append(change.Parts, part)
			}
		}
		b.Shards = append(b.Shards, change)
	}
	view := store.ViewChange{Stream: "items"}
	for one, err := range s.Scan(ctx, "items") {
		if err != nil {
			t.Fatal(err)
		}
		one.Entity = slices.Clone(one.Entity)
		view.Changes = append(view.Changes, one)
	}
	if len(view.Changes) > 0 {
		b.Views = append(b.Views, view)
	}
	if err := to.Apply(ctx, b); err != nil {
		t.Fatal(err)
	}
	return to
}
