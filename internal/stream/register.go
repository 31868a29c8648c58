package stream

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// Register returns the number of a TP that the bus names in an acknowledgement and that has none:
// it looks the TPs of the stream up, once a Tick at most, and waits where another shard does so.
// Until a TP is registered nobody notices that it loses messages (rule 10). The number is 0 where
// the TP is not there yet, or cannot be read. An error wraps ErrReadBack: the TP was made again
// before or behind what was acknowledged, or the bus does not tell.
func (c *CatchUp) Register(ctx context.Context, name string, tp sink.TPRef) (uint32, error) {
	s := c.streams[name]
	release, err := backoff.Acquire(ctx, s.looking)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrReadBack, err)
	}
	defer release()
	number, another := c.committer.Number(name, tp)
	if number == 0 && time.Since(s.lookedUp) >= c.opts.Tick {
		_, err := c.registrar.refresh(ctx, s, false)
		// A look may take longer than a Tick: those who waited for it do not repeat it at once.
		s.lookedUp = time.Now()
		unread := s.continuesUnread(err)
		if err != nil && !unread {
			return 0, fmt.Errorf("%w: %w", ErrReadBack, err)
		}
		s.unread = unread
		number, another = c.committer.Number(name, tp)
	}
	if another && !s.unread {
		return 0, fmt.Errorf("%s was made again, and has not the incarnation %s: %w", tp.Name, tp.Incarnation, ErrReadBack)
	}
	return number, nil
}

func (g *registrar) register(ctx context.Context, s *stream, list []lookedUp) error {
	lost := slices.ContainsFunc(list, func(f lookedUp) bool { return f.finding == another })
	if s.Release && lost {
		return g.forget(ctx, s, list)
	}
	unknown := !s.Release && isSpread(list) && slices.ContainsFunc(list, func(f lookedUp) bool { return f.finding == beginsLate })
	if unknown && !s.isReady() {
		if err := g.skip(ctx, s, list); err != nil {
			return err
		}
		unknown = false
	}
	b := &store.Batch{}
	var passed []Span
	renewed := false
	for i := range list {
		f := &list[i]
		switch {
		case f.finding == same && unknown:
			// Rule 22: its entries are disputed, and nothing of it is read again.
			again := f.was
			again.Number = g.number(s, f)
			f.was.Retired = true
			b.Registrations = append(b.Registrations, f.was, again)
		case f.finding == same:
		case f.finding == beginsLate && s.Release:
			passed = append(passed, Span{TP: f.was.Number, Range: Range{To: f.First}, late: true})
		default:
			if f.was.Number != 0 {
				renewed = true
				if f.finding == outdated {
					g.c.opts.Log.Info("a compacted topic was not read for long: it is read again from its beginning", "stream", s.Name, "tp", f.Name,
						"seen", time.UnixMilli(int64(f.was.Seen)), "next", f.was.Next, "first", f.First, "end", f.End)
				} else {
					g.c.opts.Log.Warn("a topic or stream is not as it was: it is read again from its beginning", "stream", s.Name, "tp", f.Name,
						"reason", f.finding.String(), "next", f.was.Next, "first", f.First, "end", f.End)
					if e := g.c.Epoch(); e != nil {
						e.losses.Add(1)
					}
				}
				f.was.Retired = true
				b.Registrations = append(b.Registrations, f.was)
			}
			if f.t != nil {
				b.Registrations = append(b.Registrations, g.registration(s, f))
			}
		}
	}
	if len(b.Registrations)+len(passed) == 0 {
		return nil
	}
	if renewed {
		return s.reconcile(ctx, b, Cover{read: passed})
	}
	return g.c.committer.apply(ctx, b, Cover{read: passed})
}

func (s *stream) reconcile(ctx context.Context, b *store.Batch, cover Cover) error {
	c := s.c.committer
	return c.disk.untilRead(ctx, s, wholeStream, func() error {
		return c.disk.retry(ctx, func() error { return s.Feed.Reconcile(ctx, b, cover) })
	})
}

func (g *registrar) registration(s *stream, f *lookedUp) store.Registration {
	return store.Registration{
		Number: g.number(s, f), Stream: s.Name, TP: f.Name, Incarnation: f.Incarnation, Next: f.First, Late: late(&f.TP),
		Seen: uint64(time.Now().UnixMilli()),
	}
}

// number returns a number for a registration of a TP that may be read again up to its end.
func (g *registrar) number(s *stream, f *lookedUp) uint32 {
	n := g.c.committer.next()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rereads[n] = f.End
	return n
}

// isSpread reports whether messages of an entity may lie in several TPs: those of one topic have
// their keys apart, those of several topics or JetStream streams need not.
func isSpread(list []lookedUp) bool {
	return slices.ContainsFunc(list[min(1, len(list)):], func(f lookedUp) bool { return f.Destination == "" || f.Destination != list[0].Destination })
}

// skip has Start read the TPs that begin late from their first messages on, and then dispute all
// entries of the stream (rule 22). Their offsets stay where they are: a start behind a kill does so
// again.
func (g *registrar) skip(ctx context.Context, s *stream, list []lookedUp) error {
	for i := range list {
		f := &list[i]
		if f.finding != beginsLate {
			continue
		}
		release, err := backoff.Acquire(ctx, f.t.reading)
		if err != nil {
			return err
		}
		f.t.cursors[f.was.Number] = max(f.t.cursors[f.was.Number], f.First)
		release()
		g.c.opts.Log.Warn("all entities of the stream are published once more", "stream", s.Name, "tp", f.Name,
			"reason", f.finding.String(), "next", f.was.Next, "first", f.First)
		f.finding = same
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown = true
	return nil
}

// forget begins a release stream again, of which the bus has lost something (rule 21): it reads all
// its TPs. Where something has expired in them, the lost rows cannot be told from the others.
func (g *registrar) forget(ctx context.Context, s *stream, list []lookedUp) error {
	if s.isReady() || s.messages.Load() > 0 {
		// What it has in memory is of the former messages, too.
		return fmt.Errorf("stream %s: %w: start bridge again, which reads what is left and publishes the other rows again", s.Name, sink.ErrBehind)
	}
	// Not as it was opened: a copy may have been restored since.
	image, err := g.c.committer.store.Load(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	b := Rebuild(&image, s.Name, time.Now())
	for i := range list {
		f := &list[i]
		if late(&f.TP) {
			return fmt.Errorf("stream %s: %w, and messages of %s have expired, so nothing tells which rows are lost: run `bridge checkpoint rebuild %s`",
				s.Name, sink.ErrBehind, f.Name, s.Name)
		}
		b.Registrations = append(b.Registrations, g.registration(s, f))
	}
	g.c.opts.Log.Warn("the bus has lost messages of a release stream: its topics are read again from their beginning", "stream", s.Name)
	return g.c.committer.disk.retry(ctx, func() error { return s.Feed.Restore(ctx, b) })
}

// Copy is an older copy of what a store had of a stream, but for its view (decision 23). The zero
// value is none.
type Copy struct {
	// Registrations are the registrations of a release stream. Their numbers mean nothing.
	Registrations []store.Registration
	// Shards have all that was copied of a shard.
	Shards []store.ShardChange
	// IgnoreBelow is that of the stream by the copy.
	IgnoreBelow uint64
	// Epoch is at least that of the process that wrote the copy.
	Epoch uint64
	// Forgets reports whether a process may drop what it has of a shard, and whether that is a
	// table. Nil: of none.
	Forgets func(shard string) (may, table bool)
	// pending are the shards that Compare has found, whole says that all is taken for them.
	pending map[store.Key]bool
	whole   bool
}

// Compare finds the shards of which c has a gap at or below the floor, and the store has none: it
// knows from messages alone where they begin, which do not tell what was pending there (rule 16). A
// release stream then reads again what c does not cover.
func (c *Copy) Compare(ctx context.Context, s store.Store, image *store.Image, release bool) error {
	c.pending = make(map[store.Key]bool)
	for _, change := range c.Shards {
		has, is := image.Shards[change.Key], change.Progress
		if is.Floor == 0 || !has.Started || has.Since != is.Since {
			continue
		}
		copied, err := hasGap(func(yield func(store.Part, error) bool) {
			for _, one := range change.Parts {
				if one.Kind == store.Gaps && !yield(one, nil) {
					return
				}
			}
		}, is.Position, is.Floor)
		if err != nil || !copied {
			continue
		}
		kept, err := hasGap(s.Parts(ctx, change.Key, store.Gaps, 0), has.Position, is.Floor)
		if err != nil && !IsDamaged(err) {
			return fmt.Errorf("%w: %w", errStore, err)
		}
		if !kept && err == nil {
			c.pending[change.Key], c.whole = true, release
		}
	}
	return nil
}

// hasGap reports whether an id through last is missing.
func hasGap(parts iter.Seq2[store.Part, error], position, last uint64) (has bool, err error) {
	l, err := openLedger(parts, position, ledger.Options{MaxBytes: math.MaxInt})
	if err != nil {
		return false, err
	}
	l.Unpublished(func(r source.Range) bool {
		has = r.First <= last
		return false
	})
	return has, l.Err()
}

// replaced are the kinds of parts that a copy of a shard replaces.
var replaced = []store.Kind{store.Gaps, store.Ahead, store.Published, store.Reconcile, store.AbsentEntities, store.MeaningPart, store.Noted, store.SchemaPart}

// restore puts into the store what it lacks of a copy: all where it has nothing of the stream, or
// the copy knows later messages, else the shards that it does not know, or about which the copy has
// a decision that it does not know. Either is older than what is on the bus, and so safe.
func (s *stream) restore(ctx context.Context) error {
	if s.c.opts.Copy == nil {
		return nil
	}
	copied, err := s.c.opts.Copy(ctx, s.Name)
	if err != nil {
		return err
	}
	followed := s.partitions() != nil
	if !followed {
		s.IgnoreBelow = max(s.IgnoreBelow, copied.IgnoreBelow)
	}
	highest := copied.Epoch
	for i := range copied.Shards {
		highest = max(highest, copied.Shards[i].Progress.Since)
	}
	for was := s.c.copied.Load(); was < highest && !s.c.copied.CompareAndSwap(was, highest); {
		was = s.c.copied.Load()
	}
	image, err := s.c.committer.store.Load(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	// Another stream may be ready already, with our epoch in the store.
	image.Epoch = s.c.known
	if err := copied.Compare(ctx, s.c.committer.store, &image, s.Release); err != nil {
		return err
	}
	if followed && !copied.whole {
		// It has read on by its own registrations.
		copied.Registrations = nil
	}
	b := Lacking(&image, s.Name, &copied, s.c.committer.next)
	if empty(b) {
		return nil
	}
	s.c.opts.Log.Info("progress was restored from the bus", "stream", s.Name, "shards", len(b.Shards), "topics", len(b.Registrations))
	err = s.c.committer.disk.retry(ctx, func() error { return s.Feed.Restore(ctx, b) })
	if err != nil || !followed || !copied.whole {
		return err
	}
	return startAgain(s.rounds(ctx, true))
}

// Lacking returns what a store that holds image lacks of a copy of a stream. next returns a number
// for a new registration.
//
// A store that is behind the copy gets all of it: another process has published since, perhaps by
// another number of shares, and what it published may have expired. A later decision of the store
// stays.
//
// A shard is replaced though the offsets of the store may lie beyond those of the copy: between
// them is not a message of it that counts, or the store would know the decision from that.
//
// What a copy of a later process lacks, that process has dropped: a table begins with its first
// row, and no message of a former one of its name counts.
func Lacking(image *store.Image, stream string, copied *Copy, next func() uint32) *store.Batch {
	b := &store.Batch{}
	fresh := true
	for key := range image.Shards {
		fresh = fresh && key.Stream != stream
	}
	for i := range image.Registrations {
		fresh = fresh && image.Registrations[i].Stream != stream
	}
	behind := !fresh && (copied.whole || isBehind(image, stream, copied.Registrations))
	if behind {
		for _, r := range image.Registrations {
			if r.Stream == stream && !r.Retired {
				r.Retired = true
				b.Registrations = append(b.Registrations, r)
			}
		}
	}
	if fresh || behind {
		for _, r := range copied.Registrations {
			r.Number = next()
			b.Registrations = append(b.Registrations, r)
		}
	}
	copies := make(map[store.Key]bool, len(copied.Shards))
	for _, change := range copied.Shards {
		copies[change.Key] = true
		has, known := image.Shards[change.Key]
		is := change.Progress
		again := (behind || copied.pending[change.Key]) && is.Started == has.Started
		if fresh || !known || is.Since > has.Since || is.Since == has.Since && (is.Started && !has.Started || again) {
			change.Clear, is.ReconcileDue = replaced, is.ReconcileDue || has.ReconcileDue
			b.Shards = append(b.Shards, change)
		}
	}
	for key := range image.Shards {
		if key.Stream != stream || copied.Epoch <= image.Epoch || copied.Forgets == nil || copies[key] {
			continue
		}
		may, table := copied.Forgets(key.Shard)
		dropped := store.ShardChange{Key: key, Remove: true}
		if table {
			dropped.Progress = &store.Progress{Started: true, Since: copied.Epoch + 1, Saved: time.Now()}
		}
		if may {
			b.Shards = append(b.Shards, dropped)
		}
	}
	return b
}

// isBehind reports whether registrations of a copy know a message of a TP that image does not.
func isBehind(image *store.Image, stream string, copied []store.Registration) bool {
	known := make(map[string]*store.Registration)
	for i := range image.Registrations {
		if r := &image.Registrations[i]; r.Stream == stream && !r.Retired {
			known[r.TP] = r
		}
	}
	end := func(r *store.Registration) uint64 {
		if r.High.Hash == 0 {
			return r.Next
		}
		return max(r.Next, r.High.Offset+1)
	}
	return slices.ContainsFunc(copied, func(r store.Registration) bool {
		has := known[r.TP]
		return has == nil && r.High.Hash != 0 || has != nil && has.Incarnation == r.Incarnation && end(&r) > end(has)
	})
}
