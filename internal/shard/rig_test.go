package shard_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
)

// process is a run of the program with one stream: what internal/app builds, over the parts of a
// bench.
type process struct {
	// shards has one for each table, shard the first.
	shards    []*shard.Shard
	shard     *shard.Shard
	catchup   *stream.CatchUp
	committer *stream.Committer
	movers    *stream.Movers
	feed      *stream.Feed
	view      *stream.View
	// pollsPerSecond bounds the polls of idle shards, 0 does not.
	pollsPerSecond int
}

func (b *bench) process(t testing.TB) *process {
	t.Helper()
	opts := b.opts
	opts.Sink, opts.Store = b.bus, b.store
	if b.sink != nil {
		opts.Sink = b.sink
	}
	var fence func(context.Context) error
	if whole, ok := opts.Sink.(sink.Transactional); ok {
		opts.Whole, fence = true, whole.Fence
	}
	if b.fence != nil {
		fence = func(context.Context) error { b.fence(); return nil }
	}
	image, err := b.store.Load(context.Background())
	must.OK(t, err)
	tables := b.tables(t)
	p := &process{pollsPerSecond: b.pollsPerSecond, committer: stream.NewCommitter(b.store, image, opts.Faults)}
	feed := stream.FeedOptions{Stream: "items", Store: b.store, Committer: p.committer}
	for _, table := range tables {
		feed.Shards = append(feed.Shards, stream.FeedShard{Name: table.name, Ledger: ledger.Options{Order: opts.IDOrder}, PublishedRows: opts.PublishedRows})
	}
	if opts.Kind == event.Capability {
		p.view = stream.NewView("items", b.store, p.committer.InForce)
		p.movers = stream.NewMovers(p.view, stream.MoversOptions{
			Shards: shardNames[:len(tables)], Read: b.readKeys(tables),
			Publish: func(ctx context.Context, name string, moves []stream.Move) error {
				return p.shards[slices.Index(shardNames, name)].Publish(ctx, moves)
			},
			Pause: time.Millisecond, Bound: b.queue,
		})
		feed.View, feed.Movers = p.view, p.movers
	}
	p.feed = stream.NewFeed(feed)
	opts.Feed, opts.View, opts.Movers, opts.Committer = p.feed, p.view, p.movers, p.committer
	switch {
	case b.unread:
	case b.reader != nil:
		opts.Reader = b.reader
	default:
		opts.Reader = b.bus
	}
	stop := func(err error) {
		for _, s := range p.shards {
			s.Stop(err)
		}
	}
	p.catchup = stream.New(stream.Options{
		Reader: opts.Reader, Fence: fence, Turn: b.turn, Committer: p.committer, Image: image, Domain: opts.Domain, Log: opts.Logger,
		Streams: []stream.Stream{{
			Name: "items", Release: opts.Kind == event.Release, Destinations: b.destinations, Hash: opts.Hash, Feed: opts.Feed,
		}},
		Superseded: stop,
		Stopped:    func(_ string, err error) { stop(err) },
		Tick:       b.tick, IdleEvery: 5 * b.tick, AnchorsEvery: b.tick, Recheck: time.Millisecond,
	})
	opts.Recovery, opts.Shared = p.catchup, opts.Shared || len(tables) > 1
	for i, table := range tables {
		one := opts
		one.Name, one.Encoder, one.Source = table.name, b.encoder(t, table.name), table.rows
		if b.topics != nil {
			one.Route = func(*event.Event) string { return b.topics[i] }
		}
		p.shards = append(p.shards, shard.New(one))
	}
	p.shard = p.shards[0]
	return p
}

var shardNames = []string{"items", "items_1"}

// benchTable is a table of a bench: rows is how it is read, ids how its ids are.
type benchTable struct {
	name      string
	rows, ids source.Shard
	encoder   *event.Encoder
}

func (b *bench) tables(t testing.TB) []benchTable {
	t.Helper()
	list := []source.Shard{b.table}
	if b.source != nil {
		list[0] = b.source
	}
	if b.second != nil {
		list = append(list, b.second)
	}
	var tables []benchTable
	for i, table := range list {
		one := benchTable{name: shardNames[i], rows: table, ids: table, encoder: b.encoder(t, shardNames[i])}
		if b.hook != nil {
			one.rows = hookedSource{one.rows, b.hook}
		}
		if b.reaper != nil {
			one.rows = reapedSource{one.rows, b.reaper}
		}
		tables = append(tables, one)
	}
	return tables
}

func (b *bench) encoder(t testing.TB, name string) *event.Encoder {
	t.Helper()
	encoder := must.Get(event.NewEncoder(event.Options{Stream: "items", Shard: name, Kind: b.opts.Kind, Source: "db", Table: name, Fields: b.fields, Version: b.version, Format: b.format, Payload: b.payload, BadValue: b.badValue}))(t)
	return encoder
}

// readKeys returns what reads keys of tables for Movers.
func (b *bench) readKeys(tables []benchTable) func(context.Context, string, [][]byte) (stream.FoundRows, error) {
	var mu sync.Mutex
	return func(ctx context.Context, _ string, keys [][]byte) (stream.FoundRows, error) {
		mu.Lock()
		defer mu.Unlock()
		reading := stream.FoundRows{Rows: make([][]stream.Found, len(keys)), Snapshot: len(tables) == 1}
		for i := range tables {
			if err := tables[i].read(ctx, keys, &reading); err != nil {
				return reading, err
			}
		}
		return reading, nil
	}
}

// read adds to a reading what the table has of keys.
func (b *benchTable) read(ctx context.Context, keys [][]byte, reading *stream.FoundRows) error {
	var page source.Page
	// Not by rows: this is no step of its own.
	if err := b.ids.Read(ctx, source.Query{Limit: 1, MaxBytes: 1}, &page); err != nil {
		return err
	}
	if err := b.encoder.Bind(page.Columns); err != nil {
		return err
	}
	at := make(map[string]int)
	q := source.Query{Limit: 10_000, MaxBytes: 1 << 20}
	for i, key := range keys {
		values, err := b.encoder.KeyValues(key, nil)
		if err != nil {
			return err
		}
		q.Keys, at[string(key)] = append(q.Keys, values), i
	}
	if err := b.rows.Read(ctx, q, &page); err != nil {
		return err
	}
	if err := b.encoder.Bind(page.Columns); err != nil {
		return err
	}
	traits, err := b.ids.Traits(ctx)
	if err != nil {
		return err
	}
	reading.Unproved = reading.Unproved || !traits.Writer
	for _, row := range page.Rows {
		d, err := b.encoder.Digest(row)
		if err != nil {
			return err
		}
		i, ok := at[string(d.Key)]
		if !ok {
			continue
		}
		found := stream.Found{Shard: b.name, Row: row.ID, Digest: d.Sum, Deleted: d.Deleted}
		if c := page.Columns.Modified; c >= 0 {
			// Without a moment in it, which of two rows is younger is not known.
			found.Modified, _ = page.Columns.List[c].Time(row.Values[c], time.UTC)
		}
		reading.Rows[i] = append(reading.Rows[i], found)
	}
	return nil
}

// run runs the process until ctx ends: then the shards end in good order, and after them the rest.
// It returns the error of a store that is broken.
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
	err := shard.NewScheduler(p.pollsPerSecond).Run(ctx, p.shards...)
	give()
	end()
	beside.Wait()
	return errors.Join(err, errors.Join(errs...))
}

// errDead is what the store of a process returns that was killed: it takes no more changes.
var errDead = errors.New("the process is dead")

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
	image := must.Get(b.store.Load(context.Background()))(t)
	must.OK(t, b.store.Apply(context.Background(), change(&image)))
}

// set is bridge checkpoint set.
func (b *bench) set(t testing.TB, id uint64) {
	t.Helper()
	b.apply(t, func(image *store.Image) *store.Batch {
		batch, _, err := stream.SetPosition{Key: key, Kind: b.opts.Kind, ID: id, Epoch: stream.NextEpoch(image, time.Now()), Now: time.Now()}.Batch(t.Context(), b.store)
		must.OK(t, err)
		return batch
	})
}

func copyStore(s store.Store) store.Store { return s.(*storememory.Store).Clone() }
