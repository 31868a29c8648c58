package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// Feed takes in the facts of one stream: messages of ours that are on the bus, which catch-up has
// read or the bus has acknowledged. They change its view, and the progress of its shards. It is
// safe for concurrent use: each method acquires the committer, which guards what the feed knows, so
// no change takes back what another one has changed.
type Feed struct {
	opts FeedOptions
	// shards are the states of the shards of the configuration.
	shards map[string]*ShardState

	// dropped counts the entities that were not nominated, since too many wait, demanded those of
	// which the store knows.
	dropped  atomic.Uint64
	demanded uint64

	// states has those of other shards, too, of which the bus has messages.
	states  map[string]*ShardState
	late    lateEntities
	lists   Lists
	follows bool
}

// FeedOptions describe a stream to its Feed.
type FeedOptions struct {
	Stream string
	// View and Movers are nil for a release stream.
	View   *View
	Movers *Movers
	// Store is read only.
	Store     store.Store
	Committer *Committer
	Shards    []FeedShard
	// Known are the shards that the store had at the start; one that is no more in the
	// configuration may be among them.
	Known []string
	// Logger defaults to one that writes nothing.
	Logger *slog.Logger
}

// FeedShard is a shard of the configuration.
type FeedShard struct {
	Name string
	// Ledger says how the gaps of the shard are kept while it does not run.
	Ledger ledger.Options
	// PublishedRows is how many of the rows published last are kept; 0 is 1000.
	PublishedRows int
}

// NewFeed returns the feed of a stream.
func NewFeed(o FeedOptions) *Feed {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	f := &Feed{opts: o, shards: make(map[string]*ShardState), states: make(map[string]*ShardState)}
	f.lists.feed = f
	for _, s := range o.Shards {
		one := f.newState(s.PublishedRows, s.Ledger)
		f.shards[s.Name], f.states[s.Name] = one, one
	}
	if o.Movers != nil {
		// A reconcile of all shards is due: ForgetDecided commits that.
		o.Movers.onDrop = func() { f.dropped.Add(1) }
	}
	return f
}

// state returns that of a shard. One that is no more in the configuration has one, too: what was
// published of its table is known if it comes back. The caller has acquired the committer.
func (f *Feed) state(name string) *ShardState {
	s := f.states[name]
	if s == nil {
		s = f.newState(0, ledger.Options{})
		f.states[name] = s
	}
	return s
}

type change struct {
	*store.Batch
	feed *Feed
	// read is nil for what was read of the bus. touched are the states of the shards that change.
	read    *Read
	touched map[string]*ShardState
	// attempt says that a shard makes the change in its attempt to run.
	attempt bool
	// demanded says that a reconcile of all shards is due.
	demanded bool
}

func (f *Feed) newChange(read *Read) *change {
	return &change{Batch: &store.Batch{}, feed: f, read: read, touched: make(map[string]*ShardState), attempt: read != nil}
}

// Apply takes in facts: messages of one registration that were read of the bus, in their order, or,
// with a Read, the messages of a batch that the bus has acknowledged. It commits all that changes,
// with what it covers of the bus. The change names the entities of messages that are late, or has a
// reconcile be due: the offset passes them at once (rule 7). It waits for no owner, since an owner
// that waits in CatchUp.Resolve calls it, and not for the disk. An error says that nothing was
// committed, and nothing has changed. After store.ErrOutage the same call is made again, or the
// attempt of the shard ends. What was read is read again after ErrUnread, and any other error stops
// the stream; that of a batch ends the attempt. Several goroutines may call it, for several TPs.
func (f *Feed) Apply(ctx context.Context, facts []Message, read *Read, cover Cover) error {
	c := f.newChange(read)
	var found *Prepared
	if read == nil && f.opts.View != nil {
		var err error
		if found, err = f.opts.View.prepareFacts(ctx, facts); err != nil {
			return c.unread(err)
		}
	}
	release, err := f.opts.Committer.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	for i := range facts {
		if _, err := c.touch(ctx, facts[i].Shard); err != nil {
			return err
		}
	}
	var claims *Claims
	var named map[lateEntity]*lateName
	if read == nil {
		named, err = f.name(ctx, c, facts)
	} else {
		claims = read.Claims
		_, err = c.touch(ctx, read.Shard)
	}
	if err != nil {
		return err
	}
	for i := range facts {
		// What its Read says of the rows of a batch is more.
		if m := &facts[i]; read == nil || m.Shard != read.Shard {
			c.touched[m.Shard].note(m)
		}
	}
	if err := c.make(); err != nil {
		return err
	}
	f.late.change(c.Batch, f.opts.Stream, named)
	if f.opts.View == nil || read != nil && claims == nil {
		err = c.commit(ctx, cover)
	} else {
		looked := false
		err = f.opts.View.Apply(ctx, facts, found, claims, func(changes []store.Change) error {
			if looked = true; len(changes) > 0 {
				c.Views = []store.ViewChange{{Stream: f.opts.Stream, Changes: changes}}
			}
			return c.commit(ctx, cover)
		})
		if !looked {
			err = c.unread(err)
		}
	}
	if err != nil || read != nil {
		return err
	}
	for e, name := range named {
		f.late.named[e], f.late.last = name, max(f.late.last, name.number)
	}
	for i := range facts {
		m := &facts[i]
		if s := f.shards[m.Shard]; s != nil {
			s.keep(m)
		}
		if f.late.ready && m.Late {
			f.nominate(lateEntity{m.Shard, string(m.Key)})
		}
	}
	return nil
}

// touch adds a shard to those that change, with its progress open.
func (c *change) touch(ctx context.Context, name string) (*ShardState, error) {
	s := c.touched[name]
	if s != nil {
		return s, nil
	}
	s = c.feed.state(name)
	if err := c.feed.open(ctx, name, s); err != nil {
		return nil, c.unread(err)
	}
	// Until the store has the change.
	c.touched[name], s.stale = s, true
	return s, nil
}

func (c *change) make() error {
	now := time.Now()
	var errs []error
	for name, s := range c.touched {
		var one store.ShardChange
		var err error
		if c.read != nil && name == c.read.Shard {
			one, err = s.advance(c.read)
		} else {
			one, err = s.flush(now)
		}
		c.Shards, errs = append(c.Shards, one), append(errs, c.unread(err))
		if s.again != nil {
			c.Shards = append(c.Shards, s.again.Change(store.Key{Stream: c.feed.opts.Stream, Shard: name}, now))
		}
	}
	return errors.Join(errs...)
}

// unread returns the error of a change for which a part of the store was not read, unless that part
// is damaged. Facts are read again. An attempt ends: what it has decided by the progress does not
// count, and no reader waits for its messages.
func (c *change) unread(err error) error {
	// These stay until a person acts.
	permanent := IsDamaged(err) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrClosed) || errors.Is(err, source.ErrUnfit)
	switch {
	case err == nil || permanent || errors.Is(err, ErrReadBack):
		return err
	case c.attempt:
		return endUnread(err)
	}
	return fmt.Errorf("%w: %w", ErrUnread, err)
}

func endUnread(err error) error {
	return fmt.Errorf("%w: %w: %w", ErrUnread, err, ErrReadBack)
}

// commit writes the change, and installs it. Where that fails, or nobody comes here, what was
// computed is dropped: the progress of the shards is opened again before their next change.
func (c *change) commit(ctx context.Context, cover Cover) error {
	if err := c.feed.opts.Committer.Commit(ctx, c.Batch, cover); err != nil {
		return err
	}
	for name, s := range c.touched {
		if s.stale = s.paused && !s.running; c.read != nil && name == c.read.Shard {
			s.granted.Store(max(s.granted.Load(), c.read.Compared))
		}
		if c.demanded {
			// Not before it is known what is to be read again first (rule 21).
			s.demands.Add(1)
		}
		s.saved()
	}
	return nil
}

// Reconcile commits b with cover, and has a reconcile of all shards of the stream follow at once
// (rules 7 and 21). Entities that wait are published all the same. It may be called again after
// store.ErrOutage and ErrUnread.
func (f *Feed) Reconcile(ctx context.Context, b *store.Batch, cover Cover) error {
	return f.opts.Committer.Still(ctx, func(store.Store) error { return f.reconcile(ctx, b, cover) })
}

func (f *Feed) reconcile(ctx context.Context, b *store.Batch, cover Cover) error {
	c := f.newChange(nil)
	c.Registrations = b.Registrations
	if err := errors.Join(c.demandAll(ctx), c.make()); err != nil {
		return err
	}
	return c.commit(ctx, cover)
}

func (f *Feed) open(ctx context.Context, name string, s *ShardState) error {
	if s.progress != nil && !s.stale {
		return nil
	}
	key, options := store.Key{Stream: f.opts.Stream, Shard: name}, s.options
	saved, found, err := f.opts.Store.Progress(ctx, key)
	if err != nil {
		return err
	}
	pause, err := LoadPause(ctx, f.opts.Store, key)
	if err != nil {
		return err
	}
	if s.paused = !pause.Since.IsZero(); found {
		options.Away = pause.Away(saved.Saved)
	}
	if s.schema, err = store.LoadSchema(ctx, f.opts.Store, key); err != nil {
		return err
	}
	republish, err := LoadRepublish(ctx, f.opts.Store, key)
	if err != nil {
		return err
	}
	p, err := OpenProgress(ctx, f.opts.Store, key, saved, options)
	if err != nil {
		return err
	}
	if err := f.lists.Open(ctx); err != nil {
		return err
	}
	if _, late := f.opts.Committer.registered(f.opts.Stream); late {
		p.TrustLow()
	}
	if f.follows {
		p.Follow()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread = s.unread || s.running && s.progress.Err() != nil
	s.progress, s.stale, s.schemaRead = p, false, false
	s.again = nil
	s.republish.Store(republish)
	return nil
}

func (c *change) demandAll(ctx context.Context) error {
	c.demanded = true
	for name := range c.feed.states {
		s, err := c.touch(ctx, name)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.progress.Demand()
		s.mu.Unlock()
	}
	return nil
}

// Follow says that all that the bus held was applied, and that what follows is published by another
// process while this one waits: ids that are missing from now on stay polled, also where the store
// was empty (rule 15).
func (f *Feed) Follow(ctx context.Context) error {
	return f.opts.Committer.Still(ctx, func(store.Store) error {
		f.follows = true
		for _, s := range f.states {
			if s.progress != nil {
				s.progress.Follow()
			}
		}
		return nil
	})
}

// Restore commits b, which replaces the progress of shards: none of the stream runs. What was
// opened of them is opened again from the store. It may be called again after store.ErrOutage.
func (f *Feed) Restore(ctx context.Context, b *store.Batch) error {
	return f.opts.Committer.Still(ctx, func(store.Store) error {
		for _, s := range f.states {
			s.stale = true
		}
		return f.opts.Committer.Commit(ctx, b, Cover{})
	})
}

// Reopen has the progress of the shards of the stream in b be opened again from the store, before
// their next change. None of them runs, and the caller holds the Committer.
func (f *Feed) Reopen(b *store.Batch) {
	for _, one := range b.Shards {
		if s := f.states[one.Key.Shard]; s != nil && one.Key.Stream == f.opts.Stream {
			s.stale = true
		}
	}
}

func (f *Feed) acquire() (release func()) {
	// Without a context nothing ends the wait.
	release, _ = f.opts.Committer.Acquire(context.Background())
	return release
}
