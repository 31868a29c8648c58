package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/published"
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

	// dropped counts the entities that were not nominated, demanded those of which the store knows.
	dropped  atomic.Uint64
	demanded uint64

	// states has those of other shards, too, of which the bus has messages.
	states map[string]*ShardState
	late   lateEntities
	// follows is set by Follow.
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Feed{opts: o, shards: make(map[string]*ShardState), states: make(map[string]*ShardState)}
	for _, s := range o.Shards {
		one := newState(s.PublishedRows, s.Ledger)
		f.shards[s.Name], f.states[s.Name] = one, one
	}
	if o.Movers != nil {
		o.Movers.onDrop = f.overflowed
	}
	return f
}

// state returns that of a shard. One that is no more in the configuration has one, too: what was
// published of its table is known if it comes back. The caller has acquired the committer.
func (f *Feed) state(name string) *ShardState {
	s := f.states[name]
	if s == nil {
		s = newState(0, ledger.Options{})
		f.states[name] = s
	}
	return s
}

// change is the batch that is being made.
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
		if found, err = f.opts.View.PrepareFacts(ctx, facts); err != nil {
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
		if f.state(m.Shard).keep(m); f.late.ready && m.Late {
			f.nominate(lateEntity{m.Shard, string(m.Key)})
		}
	}
	return nil
}

// name returns the entities of late facts that the store is to name (rule 7). Where they are too
// many, a reconcile is due instead.
func (f *Feed) name(ctx context.Context, c *change, facts []Message) (map[lateEntity]*lateName, error) {
	if err := f.loadLate(ctx); err != nil {
		return nil, c.unread(err)
	}
	named, late, fits := f.late.name(facts)
	if !fits && !f.late.over {
		f.opts.Logger.Warn("too many late messages to decide one by one: a reconcile follows", "stream", f.opts.Stream, "messages", late)
	}
	if f.late.over = !fits; fits {
		return named, nil
	}
	return named, c.demandAll(ctx)
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

// make adds what changes of the shards.
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
	}
	return errors.Join(errs...)
}

// unread returns the error of a change for which a part of the store was not read, unless that part
// is damaged. Facts are read again. An attempt ends: what it has decided by the progress does not
// count, and no reader waits for its messages.
func (c *change) unread(err error) error {
	switch {
	case err == nil || isPermanent(err) || errors.Is(err, ErrReadBack):
		return err
	case c.attempt:
		return endUnread(err)
	}
	return fmt.Errorf("%w: %w", ErrUnread, err)
}

// isPermanent reports whether an error of the store stays until a person acts.
func isPermanent(err error) bool {
	return IsDamaged(err) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrClosed) || errors.Is(err, source.ErrUnfit)
}

// endUnread returns the error that ends an attempt for which a part of the store was not read.
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

// nominate has the owner of an entity decide about it.
func (f *Feed) nominate(e lateEntity) {
	decided := f.opts.Movers.Nominate(e.shard, []byte(e.entity))
	if one := f.late.named[e]; one != nil {
		one.decided = decided
	}
}

// loadLate has what the store names of late messages be known before anything is added to it.
func (f *Feed) loadLate(ctx context.Context) error {
	if f.opts.Movers == nil || f.late.named != nil {
		return nil
	}
	shards := slices.AppendSeq(slices.Clone(f.opts.Known), maps.Keys(f.states))
	slices.Sort(shards)
	return f.late.load(ctx, f.opts.Store, f.opts.Stream, slices.Compact(shards))
}

// Ready says that the stream has caught up: the entities that the store names are nominated, and
// those that Apply names from now on. It may be called again after ErrUnread; any other error is
// that of the store.
func (f *Feed) Ready(ctx context.Context) error {
	if f.opts.Movers == nil {
		return nil
	}
	return f.alone(ctx, func() error {
		if err := f.loadLate(ctx); err != nil {
			return f.newChange(nil).unread(err)
		}
		f.late.ready = true
		for e := range f.late.named {
			f.nominate(e)
		}
		return nil
	})
}

// forgetWithin is how long ForgetDecided waits to acquire the committer, which is handed from one
// that waits to the next.
const forgetWithin = time.Second

// ForgetDecided has the store forget the names of entities that were decided, and a reconcile be
// due for those that were dropped, since too many wait. Call it about once a second, and again
// after store.ErrOutage. ErrUnread stops nothing.
func (f *Feed) ForgetDecided(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, forgetWithin)
	defer cancel()
	release, err := f.opts.Committer.Acquire(soon)
	if err != nil {
		// A commit may wait for the disk: the next call will do.
		return context.Cause(ctx)
	}
	defer release()
	if n := f.dropped.Load(); n != f.demanded {
		if err := f.reconcile(ctx, &store.Batch{}, Cover{}); err != nil {
			return err
		}
		f.demanded = n
	}
	b, decided := &store.Batch{}, f.late.decided()
	if len(decided) == 0 {
		return nil
	}
	f.late.change(b, f.opts.Stream, decided)
	if err := f.opts.Committer.Commit(ctx, b, Cover{}); err != nil {
		return err
	}
	for e := range decided {
		delete(f.late.named, e)
	}
	return nil
}

// Reconcile commits b with cover, and has a reconcile of all shards of the stream follow at once
// (rules 7 and 21). Entities that wait are published all the same. It may be called again after
// store.ErrOutage and ErrUnread.
func (f *Feed) Reconcile(ctx context.Context, b *store.Batch, cover Cover) error {
	return f.alone(ctx, func() error { return f.reconcile(ctx, b, cover) })
}

// reconcile commits b, and has a reconcile of all shards be due.
func (f *Feed) reconcile(ctx context.Context, b *store.Batch, cover Cover) error {
	c := f.newChange(nil)
	c.Registrations = b.Registrations
	if err := errors.Join(c.demandAll(ctx), c.make()); err != nil {
		return err
	}
	return c.commit(ctx, cover)
}

// open opens the progress of a shard, unless it is what the store has.
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
	p, err := OpenProgress(ctx, f.opts.Store, key, saved, options)
	if err != nil {
		return err
	}
	if f.opts.Committer.Late(f.opts.Stream) {
		p.TrustLow()
	}
	if f.follows {
		p.Follow()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread = s.unread || s.running && s.progress.Err() != nil
	s.progress, s.stale, s.schemaRead = p, false, false
	return nil
}

// demandAll has a reconcile of all shards be due.
func (c *change) demandAll(ctx context.Context) error {
	c.demanded = true
	for name := range c.feed.states {
		s, err := c.touch(ctx, name)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.progress.SetReconcileDue(true)
		s.mu.Unlock()
	}
	return nil
}

// Follow says that all that the bus held was applied, and that what follows is published by another
// process while this one waits: ids that are missing from now on stay polled, also where the store
// was empty (rule 15).
func (f *Feed) Follow(ctx context.Context) error {
	return f.alone(ctx, func() error {
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
	return f.alone(ctx, func() error {
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

// Begin opens the progress of a shard that begins to run, until end, and the list of rows published
// last.
func (f *Feed) Begin(ctx context.Context, name string, options ledger.Options, rows int) (*ShardState, *published.Log, error) {
	release, err := f.opts.Committer.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	s := f.state(name)
	former := s.options
	s.options, s.stale, s.unread = options, true, false
	if err := f.open(ctx, name, s); err != nil {
		s.options = former
		return nil, nil, err
	}
	list, err := f.PublishedRowsOf(ctx, name, rows)
	if err != nil {
		return nil, nil, err
	}
	s.since = max(s.since, s.progress.State().Since)
	s.restore(list)
	// What counts as published.
	s.progress.Learn()
	s.running = true
	if s.progress.State().ReconcileDue {
		s.demands.Add(1)
	}
	return s, list, nil
}

// End says that a shard does not run any more.
func (f *Feed) End(name string) {
	defer f.acquire()()
	s := f.state(name)
	s.running, s.progress = false, nil
}

// Update commits what do changes of the progress of a shard that runs, before its first batch.
// After store.ErrOutage it may be called again.
func (f *Feed) Update(ctx context.Context, name string, do func(*Progress) (store.ShardChange, error)) error {
	return f.alone(ctx, func() error {
		c := f.newChange(nil)
		c.attempt = true
		s, err := c.touch(ctx, name)
		if err != nil {
			return err
		}
		one, err := func() (store.ShardChange, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return do(s.progress)
		}()
		if err != nil {
			return c.unread(err)
		}
		c.Shards = append(c.Shards, one)
		return c.commit(ctx, Cover{})
	})
}

// PublishedRowsOf returns the rows of a shard that were published last, as the store has them.
func (f *Feed) PublishedRowsOf(ctx context.Context, name string, rows int) (*published.Log, error) {
	var chunks []ledger.Chunk
	for part, err := range f.opts.Store.Parts(ctx, store.Key{Stream: f.opts.Stream, Shard: name}, store.Published, 0) {
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, ledger.Chunk{Key: part.Number, Bytes: part.Bytes})
	}
	return published.Restore(rows, chunks)
}

// SetNewest says what the bus has newest messages of: rows of a shard, ascending, and what they
// were read from. A shard that begins takes them in where the store has no list of rows published
// last.
func (f *Feed) SetNewest(name string, rows []published.Row, origin published.Origin) {
	defer f.acquire()()
	s := f.state(name)
	s.newest, s.origin = rows, origin
}

// Due reports whether a reconcile of a shard of the configuration has to follow, and the number of
// the last demand. It waits for nobody.
func (f *Feed) Due(name string) (demand uint64, due bool) {
	s := f.shards[name]
	return s.demands.Load(), s.isDue()
}

// alone acquires the committer for do.
func (f *Feed) alone(ctx context.Context, do func() error) error {
	release, err := f.opts.Committer.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return do()
}

// acquire acquires the committer for a moment.
func (f *Feed) acquire() (release func()) {
	// Without a context nothing ends the wait.
	release, _ = f.opts.Committer.Acquire(context.Background())
	return release
}

// overflowed has a reconcile of all shards follow: an entity was not nominated, since too many
// wait. It is committed by ForgetDecided, or before with their next batches. It takes no lock.
func (f *Feed) overflowed() {
	f.dropped.Add(1)
	for _, s := range f.shards {
		s.demands.Add(1)
	}
}
