package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/published"
	"example.org/bridge/sink"
	"example.org/bridge/source/ledger"
)

// ShardState is what a Feed knows of one shard. What is not said to have a lock of its own belongs
// to the one that has acquired the Committer.
type ShardState struct {
	options ledger.Options
	// running says that an owner works with the progress.
	running bool
	// stale says that the progress is not what the store has: it is opened again before the next
	// change. Until then the owner goes on with what it says: all of that is true of the bus.
	stale bool
	// paused says that a person has paused the shard, as of when the progress was opened. Its gaps
	// do not age, so the progress is opened again after each change.
	paused bool
	// progress is nil while it is not open. mu guards it and what it holds: nothing is waited for
	// under it but a read of the store.
	mu       sync.Mutex
	progress *Progress
	// republish is what was asked to be published again, as the store has it, nil for nothing: for
	// those who must not wait for mu. Nobody changes it. again is what the change that is being
	// made makes of it, nil where that leaves it.
	republish atomic.Pointer[Republish]
	again     *Republish
	// unread says that the owner has met a part that could not be read: what it has decided by the
	// progress does not count.
	unread bool
	// schema is what the store has, or the next change makes it: schemaRead says that the bus told
	// it. It is that of a shard that does not run.
	schema     *store.Schema
	schemaRead bool
	// rows are those of the tail that were read, without what identifies them: the newest, at most
	// twice the bound most before they are trimmed.
	rows []readRow
	most int
	// since is the highest epoch below which messages do not count, by those that were read.
	since uint64
	// newest are the rows that the bus has newest messages of, and origin what they were read from:
	// for a store that has no list.
	newest []published.Row
	origin published.Origin
	// demands counts how often a reconcile was demanded, granted is the number of the last demand
	// that was. Both are read without the lock, too.
	demands, granted atomic.Uint64
}

type readRow struct {
	published.Row
	epoch, seq uint64
}

// newState returns the state of a shard that keeps so many of the rows published last. Read ones
// replace at most half of them: what identifies a row is not on the bus.
func (f *Feed) newState(rows int, options ledger.Options) *ShardState {
	return &ShardState{options: options, most: max(1, cmp.Or(rows, published.DefaultRows)/2)}
}

// Lock has the progress be the caller's until unlock is called. Facts may come in at any time, so
// the owner of the shard does all under it.
func (s *ShardState) Lock() (p *Progress, unlock func()) {
	s.mu.Lock()
	return s.progress, s.mu.Unlock
}

// errProgress says that the owner has met a part of the progress that was not read.
var errProgress = errors.New("the progress is opened again")

// Err returns why what the owner has decided by the progress does not count: a part of it is
// damaged or was not read. The caller has the lock.
func (s *ShardState) Err() error {
	if err := s.progress.Err(); IsDamaged(err) {
		return err
	} else if err != nil || s.unread {
		return endUnread(cmp.Or(err, errProgress))
	}
	return nil
}

func (s *ShardState) note(m *Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Origin == sink.FromRepublish && s.republish.Load().Running() {
		s.changeAgain(func(r *Republish) bool { return r.Note(m.Row, m.Key, &m.State) })
	}
	if s.progress.Note(m.Row, m.Origin, &m.State); !s.running {
		s.noteSchema(m)
	}
}

// flush returns what was noted, for the store. Facts move no position while an owner does.
func (s *ShardState) flush(now time.Time) (store.ShardChange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return s.progress.Fill(now)
	}
	c, err := s.progress.Flush(now)
	if s.schemaRead {
		c.Parts = append(c.Parts, store.Part{Kind: store.SchemaPart, Bytes: store.AppendSchema(nil, s.schema)})
	}
	return c, err
}

func (s *ShardState) advance(r *Read) (c store.ShardChange, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress.State().Since != r.Since {
		return c, fmt.Errorf("the shard begins again as of a message that was read: %w", ErrReadBack)
	}
	if s.unread {
		return c, endUnread(errProgress)
	}
	if due := s.demands.Load() > max(s.granted.Load(), r.Compared); due || r.Compared > 0 {
		s.progress.SetReconcileDue(due)
	}
	if r.Republished != nil {
		s.changeAgain(func(asked *Republish) bool { return asked.Advance(r.Republished, r.Now) })
	}
	c, r.Found, err = s.progress.Advance(r)
	c.Parts = append(c.Parts, r.Parts...)
	return c, err
}

func (s *ShardState) saved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.Saved()
	s.schemaRead = false
	if s.again != nil {
		s.republish.Store(s.again)
		s.again = nil
	}
	if s.running && s.progress.State().ReconcileDue && !s.isDue() {
		// By a message that was read.
		s.demands.Add(1)
	}
}

// noteSchema takes in what a message tells that is newer than what is known: its members, only the
// store knows.
func (s *ShardState) noteSchema(m *Message) {
	if m.Schema == (Schema{}) {
		return
	}
	if s.schema == nil {
		s.schema = &store.Schema{Hash: m.Schema.Hash}
	}
	known := s.schema
	if m.State.Epoch < known.Epoch || m.State.Epoch == known.Epoch && m.State.Seq <= known.Seq {
		return
	}
	if known.Hash != m.Schema.Hash {
		known.Hash, known.Members = m.Schema.Hash, nil
	}
	// The stamp, too: a message of another topic-partition that is read later may be older.
	known.Version, known.Epoch, known.Seq = m.Schema.Version, m.State.Epoch, m.State.Seq
	s.schemaRead = true
}

// keep keeps a row of a message that was read, for the list of rows published last.
func (s *ShardState) keep(m *Message) {
	s.since = max(s.since, m.State.Since)
	if m.Origin == sink.FromTail && m.State.Kind == sink.StateLive && !m.Dead {
		s.rows = append(s.rows, readRow{published.Row{ID: m.Row, Content: published.ContentOf(m.State.Digest)}, m.State.Epoch, m.State.Seq})
		if len(s.rows) >= 2*s.most {
			s.trim()
		}
	}
}

// trim keeps the newest rows, in ascending order, and of messages about one row the last one that
// was published.
func (s *ShardState) trim() {
	s.rows = slices.DeleteFunc(s.rows, func(r readRow) bool { return r.epoch < s.since })
	slices.SortFunc(s.rows, func(a, b readRow) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(b.epoch, a.epoch), cmp.Compare(b.seq, a.seq))
	})
	s.rows = slices.CompactFunc(s.rows, func(a, b readRow) bool { return a.ID == b.ID })
	s.rows = slices.Delete(s.rows, 0, max(0, len(s.rows)-s.most))
}

// restore fills a list of the rows published last that the store does not have, and adds to another
// one newer rows that compare with its own, and those that it lacks. What the newest message says
// of a row counts, not what was read; what the list has of a row that says the same stays: it tells
// the row from another one.
func (s *ShardState) restore(list *published.Log) {
	if len(list.Rows()) == 0 || list.Origin() == (published.Origin{}) {
		// A list of an older build says nothing that could be compared.
		list.SetOrigin(s.origin)
	}
	if list.Origin().Fits(s.origin) {
		list.Add(s.newest)
		s.rows = slices.DeleteFunc(s.rows, func(r readRow) bool {
			_, known := slices.BinarySearchFunc(s.newest, r.ID, func(n published.Row, id uint64) int { return cmp.Compare(n.ID, id) })
			return known
		})
	}
	s.trim()
	var rows []published.Row
	for _, r := range s.rows {
		if known, ok := list.Find(r.ID); !ok || known.Content != r.Content {
			rows = append(rows, r.Row)
		}
	}
	s.newest, s.rows = nil, nil
	list.Add(rows)
}

func (s *ShardState) isDue() bool { return s.demands.Load() > s.granted.Load() }

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
	s.progress.learn()
	s.running = true
	if s.progress.State().ReconcileDue && !s.isDue() {
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
	return f.opts.Committer.Still(ctx, func(store.Store) error {
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
	return published.Restore(rows, f.opts.Store.Parts(ctx, store.Key{Stream: f.opts.Stream, Shard: name}, store.Published, 0))
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
