package shard

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/catchup"
	"example.org/bridge/internal/progress"
	"example.org/bridge/internal/published"
	"example.org/bridge/internal/view"
	"example.org/bridge/source/ledger"
)

// Feed takes in what catch-up reads of one stream: into its view, and into the progress of its
// shards. A shard that runs has its progress itself: what is read of it goes to the store beside
// that, as progress.Notes. It is safe for concurrent use.
//
// Its lock comes before those of the view and of the committer. A batch of a shard is committed
// under it, too, so that no commit takes back what another one has changed.
type Feed struct {
	opts FeedOptions
	// shards are the intakes of the shards of the configuration.
	shards map[string]*intake

	// dropped says that entities were not nominated, and that the store does not know it.
	dropped atomic.Bool

	mu sync.Mutex
	// intakes has those of other shards, too, of which the bus has messages.
	intakes map[string]*intake
	late    lateEntities
	// follows is set by Follow.
	follows bool
}

var _ catchup.Feed = (*Feed)(nil)

// FeedOptions describe a stream to its Feed.
type FeedOptions struct {
	Stream string
	// View and Movers are nil for a release stream.
	View   *view.View
	Movers *view.Movers
	// Store is read only.
	Store     store.Store
	Committer *catchup.Committer
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
	// PublishedRows is Options.PublishedRows.
	PublishedRows int
}

// NewFeed returns the feed of a stream.
func NewFeed(o FeedOptions) *Feed {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Feed{opts: o, shards: make(map[string]*intake), intakes: make(map[string]*intake)}
	for _, s := range o.Shards {
		in := f.newIntake(s.PublishedRows, s.Ledger)
		f.shards[s.Name], f.intakes[s.Name] = in, in
	}
	if o.Movers != nil {
		o.Movers.OnDrop(f.overflowed)
	}
	return f
}

// intake returns that of a shard. One that is no more in the configuration has one, too: what was
// published of its table is known if it comes back. f.mu is held.
func (f *Feed) intake(name string) *intake {
	in := f.intakes[name]
	if in == nil {
		in = f.newIntake(0, ledger.Options{})
		f.intakes[name] = in
	}
	return in
}

// Apply implements catchup.Feed.
func (f *Feed) Apply(ctx context.Context, messages []catchup.Message, commit func(*store.Batch) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := &store.Batch{}
	touched, committed := make(map[string]*intake), false
	defer func() {
		for _, in := range touched {
			in.end(committed)
		}
	}()
	for i := range messages {
		m := &messages[i]
		in := touched[m.Shard]
		if in == nil {
			in = f.intake(m.Shard)
			if err := f.open(ctx, m.Shard, in); err != nil {
				return err
			}
			touched[m.Shard] = in
		}
		in.note(m)
	}
	if err := f.loadLate(ctx); err != nil {
		return err
	}
	named, late, fits := f.late.name(messages)
	if !fits {
		if !f.late.over {
			f.late.over = true
			f.opts.Logger.Warn("too many late messages to decide one by one: a reconcile follows", "stream", f.opts.Stream, "messages", late)
		}
		if err := f.wishAll(ctx, touched); err != nil {
			return err
		}
	}
	if err := f.change(b, touched); err != nil {
		return err
	}
	f.late.change(b, f.opts.Stream, named)
	if err := f.read(ctx, messages, b, commit); err != nil {
		return err
	}
	committed = true
	for i := range messages {
		f.intake(messages[i].Shard).keep(&messages[i])
	}
	f.late.add(named)
	f.late.over = !fits
	if f.late.ready {
		for i := range messages {
			if m := &messages[i]; m.Late {
				f.nominate(lateEntity{m.Shard, string(m.Key)})
			}
		}
	}
	return nil
}

// nominate has the owner of an entity decide about it. f.mu is held.
func (f *Feed) nominate(e lateEntity) {
	decided := f.opts.Movers.Nominate(e.shard, []byte(e.entity))
	if one := f.late.named[e]; one != nil {
		one.decided = decided
	}
}

// loadLate has what the store names of late messages be known before anything is added to it. f.mu
// is held.
func (f *Feed) loadLate(ctx context.Context) error {
	if f.opts.Movers == nil || f.late.named != nil {
		return nil
	}
	shards := slices.AppendSeq(slices.Clone(f.opts.Known), maps.Keys(f.intakes))
	slices.Sort(shards)
	return f.late.load(ctx, f.opts.Store, f.opts.Stream, slices.Compact(shards))
}

// Ready implements catchup.Feed.
func (f *Feed) Ready(ctx context.Context) error {
	if f.opts.Movers == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.loadLate(ctx); err != nil {
		return err
	}
	f.late.ready = true
	for e := range f.late.named {
		f.nominate(e)
	}
	return nil
}

// ForgetDecided implements catchup.Feed. What was nominated and dropped, since too many wait, is
// forgotten for the reconcile that is due then.
func (f *Feed) ForgetDecided(ctx context.Context, commit func(*store.Batch) error) (err error) {
	if !f.mu.TryLock() {
		// A commit may wait for the disk: the next call will do.
		return nil
	}
	defer f.mu.Unlock()
	b, touched := &store.Batch{}, make(map[string]*intake)
	defer func() {
		for _, in := range touched {
			in.end(false)
		}
	}()
	if f.dropped.Swap(false) {
		defer func() { f.dropped.CompareAndSwap(false, err != nil) }()
		if err := f.wishAll(ctx, touched); err != nil {
			return err
		}
		if err := f.change(b, touched); err != nil {
			return err
		}
	}
	decided := f.late.decided()
	f.late.change(b, f.opts.Stream, decided)
	if len(b.Shards) == 0 {
		return nil
	}
	if err := commit(b); err != nil {
		return err
	}
	f.late.remove(decided)
	return nil
}

// change adds to b what changes of shards.
func (f *Feed) change(b *store.Batch, touched map[string]*intake) error {
	now := time.Now()
	for name, in := range touched {
		change, err := in.change(store.Key{Stream: f.opts.Stream, Shard: name}, now)
		if err != nil {
			return err
		}
		b.Shards = append(b.Shards, change)
	}
	return nil
}

// read applies messages to the view, where the stream has one, and commits b with that.
func (f *Feed) read(ctx context.Context, messages []catchup.Message, b *store.Batch, commit func(*store.Batch) error) error {
	if f.opts.View == nil {
		return commit(b)
	}
	return f.opts.View.Read(ctx, messages, func(changes []store.Change) error {
		if len(changes) > 0 {
			b.Views = []store.ViewChange{{Stream: f.opts.Stream, Changes: changes}}
		}
		return commit(b)
	})
}

// open opens the progress of a shard that does not run, unless it is open. f.mu is held.
func (f *Feed) open(ctx context.Context, name string, in *intake) error {
	if in.running || in.progress != nil {
		return nil
	}
	p, err := f.load(ctx, name, in.options)
	if err != nil {
		return err
	}
	if in.schema, err = store.LoadSchema(ctx, f.opts.Store, store.Key{Stream: f.opts.Stream, Shard: name}); err != nil {
		return err
	}
	in.progress = p
	return nil
}

// load opens the progress of a shard as the store has it.
func (f *Feed) load(ctx context.Context, name string, options ledger.Options) (*progress.Progress, error) {
	key := store.Key{Stream: f.opts.Stream, Shard: name}
	saved, found, err := f.opts.Store.Progress(ctx, key)
	if err != nil {
		return nil, err
	}
	if found {
		options.Away = time.Since(saved.Saved)
	}
	p, err := progress.Open(ctx, f.opts.Store, key, saved, options)
	if err != nil {
		return nil, err
	}
	if f.opts.Committer.Late(f.opts.Stream) {
		p.TrustLow()
	}
	if f.follows {
		p.Follow()
	}
	return p, p.ApplyNotes(time.Now())
}

// Reconcile implements catchup.Feed. Entities that wait are published all the same.
func (f *Feed) Reconcile(ctx context.Context, commit func(*store.Batch) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, touched := &store.Batch{}, make(map[string]*intake)
	defer func() {
		for _, in := range touched {
			in.end(false)
		}
	}()
	if err := f.wishAll(ctx, touched); err != nil {
		return err
	}
	if err := f.change(b, touched); err != nil {
		return err
	}
	return commit(b)
}

// wishAll is wish for all shards.
func (f *Feed) wishAll(ctx context.Context, touched map[string]*intake) error {
	for name := range f.intakes {
		if err := f.wish(ctx, name, touched); err != nil {
			return err
		}
	}
	return nil
}

// Follow implements catchup.Feed.
func (f *Feed) Follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.follows = true
	for _, in := range f.intakes {
		if in.progress != nil {
			in.progress.Follow()
		}
	}
}

// Restore implements catchup.Feed. What was opened of the shards is opened again from the store.
func (f *Feed) Restore(b *store.Batch, commit func(*store.Batch) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range b.Shards {
		f.intake(b.Shards[i].Key.Shard).progress = nil
	}
	return commit(b)
}

// wish has a reconcile of a shard be due, and adds the shard to touched. f.mu is held.
func (f *Feed) wish(ctx context.Context, name string, touched map[string]*intake) error {
	in := f.intakes[name]
	in.wishes.Add(1)
	if !in.running {
		if err := f.open(ctx, name, in); err != nil {
			return err
		}
		in.progress.SetReconcileDue(true)
		touched[name] = in
		return nil
	}
	saved, found, err := f.opts.Store.Progress(ctx, store.Key{Stream: f.opts.Stream, Shard: name})
	if err == nil && found {
		saved.ReconcileDue = true
		in.due, touched[name] = &saved, in
	}
	return err
}

// lend opens the progress of a shard that begins to run, and the list of rows published last.
func (f *Feed) lend(ctx context.Context, name string, options ledger.Options, rows int) (*progress.Progress, *published.Log, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.intake(name)
	in.progress, in.options = nil, options
	p, err := f.load(ctx, name, options)
	if err != nil {
		return nil, nil, err
	}
	list, err := f.loadPublishedRows(ctx, name, rows)
	if err != nil {
		return nil, nil, err
	}
	in.since = max(in.since, p.Since())
	in.restore(list)
	list.Add(in.recent(list))
	p.Fill(time.Now())
	in.running = true
	in.noted.Store(max(in.noted.Load(), p.AppliedNotes()))
	if p.ReconcileDue() {
		in.wishes.Add(1)
	}
	return p, list, nil
}

// loadPublishedRows returns the rows of a shard that were published last, as the store has them.
func (f *Feed) loadPublishedRows(ctx context.Context, name string, rows int) (*published.Log, error) {
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
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.intake(name)
	in.newest, in.origin = rows, origin
}

// giveBack says that a shard does not run any more.
func (f *Feed) giveBack(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intake(name).running = false
}

// noted returns the highest number of a part of notes of a shard: its owner is to take them in.
func (f *Feed) noted(name string) uint64 { return f.shards[name].noted.Load() }

// setReconcileDue tells the progress of a shard that runs whether a reconcile has to follow.
// compared is the number of the wish that the batch grants, 0 for none.
func (f *Feed) setReconcileDue(name string, p *progress.Progress, compared uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.intake(name)
	if due := in.wishes.Load() > max(in.granted.Load(), compared); due || compared > 0 {
		p.SetReconcileDue(due)
	}
}

// due reports whether a reconcile of a shard of the configuration has to follow, and the number of
// the last wish. It waits for nobody.
func (f *Feed) due(name string) (wish uint64, due bool) {
	in := f.shards[name]
	if !in.isDue() {
		return in.wishes.Load(), false
	}
	// It may be due because of registrations that are being committed: until then nobody knows that
	// something is to be read again.
	f.mu.Lock()
	defer f.mu.Unlock()
	return in.wishes.Load(), in.isDue()
}

// overflowed has a reconcile of all shards follow: an entity was not nominated, since too many
// wait. It is committed by ForgetDecided, or before with their next batches. It takes no lock.
func (f *Feed) overflowed() {
	f.dropped.Store(true)
	for _, in := range f.shards {
		in.wishes.Add(1)
	}
}

// commit calls do, which commits a batch of a shard with what change makes of its progress.
// compared is the number of the last wish that was granted, 0 for none.
func (f *Feed) commit(name string, change *store.ShardChange, compared uint64, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.intake(name)
	granted := max(in.granted.Load(), compared)
	if change.Progress != nil && in.wishes.Load() > granted {
		change.Progress.ReconcileDue = true
	}
	err := do()
	if err == nil {
		in.granted.Store(granted)
	}
	return err
}
