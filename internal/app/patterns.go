package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/check"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// What patterns have matched is kept as the progress of the stream's tables: each table that has
// matched has one, started or not. Beside it stand, under names that no table has:
//
//   - each pattern that was looked up: a table that is found later was not there before
//   - leftPrefix and a table that is gone: Floor is isGone, which outlives a rebuild as a decision
//     about START does
const (
	leftPrefix = "\x02"
	isGone     = 1
)

func leftKey(key store.Key) store.Key {
	return store.Key{Stream: key.Stream, Shard: leftPrefix + key.Shard}
}

// keptLeft is for how long a table that is gone is shown, and known if it comes back.
var keptLeft = 7 * 24 * time.Hour

// steady is the wall clock without its jumps since this process began.
var steady = func() time.Time { return began.Add(time.Since(began)) }

var began = time.Now()

const (
	// lookWithin bounds a look at the tables that there are, listWithin that of a command.
	lookWithin, listWithin = time.Minute, 10 * time.Second
)

// lookEvery is the time between two looks. A table that turns out to be missing has the next one
// begin after missedEvery.
var lookEvery, missedEvery = time.Minute, 5 * time.Second

// isLeft reports whether the store says that a table is gone.
func isLeft(image *store.Image, key store.Key) bool { return image.Shards[leftKey(key)].Floor != 0 }

// matchedTables returns the tables of an image that match patterns of a stream, in order: those
// that are there, and those that are gone.
func matchedTables(cfg *config.Config, s *config.Stream, image *store.Image) (there, gone []string) {
	if len(s.Patterns) == 0 {
		return nil, nil
	}
	for key := range image.Shards {
		switch {
		case key.Stream != s.Name, source.IsPattern(key.Shard), strings.HasPrefix(key.Shard, leftPrefix), !cfg.Matched(s, key.Shard):
		case isLeft(image, key):
			gone = append(gone, key.Shard)
		default:
			there = append(there, key.Shard)
		}
	}
	slices.Sort(there)
	slices.Sort(gone)
	return there, gone
}

// withTables returns the configuration with the tables that are known to match its patterns. Where
// a pattern was never looked up it asks the databases: one that does not answer is asked later.
func (a *App) withTables(ctx context.Context, cfg *config.Config) (*config.Config, error) {
	image, err := a.disk.Load(ctx)
	if err != nil {
		return nil, err
	}
	has := func(key store.Key) bool { _, has := image.Shards[key]; return has }
	// The progress on the bus, which comes later, may know that a pattern was looked up: a table
	// that it lacks is new then.
	fresh := cfg.CheckpointTopic == "" && slices.ContainsFunc(cfg.Streams, func(s config.Stream) bool {
		return slices.ContainsFunc(s.Patterns, func(pattern string) bool { return !has(store.Key{Stream: s.Name, Shard: pattern}) })
	})
	if fresh {
		asking, cancel := context.WithTimeout(ctx, sourceWithin)
		found, err := matchedNow(asking, cfg)
		cancel()
		if err != nil {
			a.logger.Debug("not all tables that patterns match are known yet", "error", config.Text(err))
		}
		// Nothing else changes the store before the app is open. START decides about these tables,
		// unless the pattern was looked up before.
		first := &store.Batch{}
		for _, one := range slices.DeleteFunc(found, func(one matches) bool { return !one.listed }) {
			pattern := store.Key{Stream: one.stream, Shard: one.pattern}
			for _, table := range append(one.tables, one.pattern) {
				if key := (store.Key{Stream: one.stream, Shard: table}); !has(pattern) && !has(key) {
					first.Shards = append(first.Shards, store.ShardChange{Key: key, Progress: &store.Progress{Saved: time.Now()}})
				}
			}
		}
		if err := a.disk.Apply(ctx, first); err != nil {
			return nil, err
		}
		if image, err = a.disk.Load(ctx); err != nil {
			return nil, err
		}
	}
	matched := make(map[string][]string)
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		tables, _ := matchedTables(cfg, s, &image)
		matched[s.Name] = tables[:min(len(tables), source.MaxTables)]
	}
	return cfg.WithTables(matched), nil
}

// changes bounds how often tables that come and go have an app be opened: the pause after the one
// before grows while they do.
type changes struct {
	last time.Time
	next backoff.Backoff
}

// awaitTables looks for tables that match patterns until they are others than those of the app, or
// ctx ends. Only a process that publishes looks.
func (a *App) awaitTables(ctx context.Context) (changed bool) {
	if !a.opts.Config.HasPatterns() {
		return false
	}
	if !a.changes.last.IsZero() && a.changes.next.Wait(ctx) != nil {
		return false
	}
	pause := backoff.Backoff{First: time.Second, Max: 30 * time.Second}
	missed := make(map[store.Key]bool)
	for {
		whole, changed, err := a.findTables(ctx)
		switch {
		case changed:
			if time.Since(a.changes.last) > 3*lookEvery {
				a.changes.next = backoff.Backoff{First: missedEvery, Max: lookEvery}
			}
			a.changes.last = time.Now()
			return true
		case ctx.Err() != nil:
			return false
		case err != nil:
			a.logger.Debug("not all tables that patterns match are known", "error", config.Text(err))
		case whole:
			pause.Reset()
			a.warnOfTables()
		}
		next := time.Now().Add(lookEvery)
		for whole && err == nil && time.Now().Before(next) && !a.misses(missed) {
			if backoff.Pause(ctx, min(missedEvery, time.Until(next))) != nil {
				return false
			}
		}
		if (!whole || err != nil) && pause.Wait(ctx) != nil {
			return false
		}
	}
}

// warnOfTables logs which streams have no table, or lack some that match, once for each reason, and
// that it is over.
func (a *App) warnOfTables() {
	for _, s := range a.streams {
		switch why, _ := (health{a}).noTables(s); {
		case why == a.lacks[s.Name]:
		case why != "":
			a.logger.Warn("a stream has no table, or lacks one", "stream", s.Name, "reason", why)
			a.lacks[s.Name] = why
		default:
			a.logger.Info("a stream has all tables that match", "stream", s.Name)
			delete(a.lacks, s.Name)
		}
	}
}

// misses reports whether a table is missing that was not when it was called before.
func (a *App) misses(before map[store.Key]bool) (more bool) {
	now := make(map[store.Key]bool)
	for _, sh := range a.shards {
		if s := sh.Status(); s.Cause == shard.CauseMissing {
			key := store.Key{Stream: s.Stream, Shard: s.Shard}
			now[key] = true
			more = more || !before[key]
		}
	}
	clear(before)
	maps.Copy(before, now)
	return more
}

// leftOut says why a table is left out. Its stream waits for it, unless no setting could name it:
// who gives a table such a name holds nothing else up.
type leftOut struct {
	why   string
	waits bool
}

type lookAt struct {
	*App
	image   store.Image
	batch   store.Batch
	changed bool
	// leftOut says by stream which table that matches is left out, added how many are new.
	leftOut map[string]leftOut
	added   map[string]int
}

func (l *lookAt) save(key store.Key, p store.Progress) {
	p.Saved = time.Now()
	l.batch.Shards = append(l.batch.Shards, store.ShardChange{Key: key, Progress: &p})
}

// findTables lists the tables of each database, and saves what has changed about those that match
// patterns. whole says that no stream still catches up.
func (a *App) findTables(ctx context.Context) (whole, changed bool, err error) {
	whole = true
	ready := make(map[string]bool)
	for _, s := range a.recovery.Progress().Streams {
		ready[s.Stream] = s.Ready && s.Err == nil
		whole = whole && (s.Ready || s.Err != nil)
	}
	if !slices.ContainsFunc(a.streams, func(s *appStream) bool { return ready[s.Name] && len(s.Patterns) > 0 }) {
		return whole, false, nil
	}
	l := &lookAt{App: a, leftOut: make(map[string]leftOut), added: make(map[string]int)}
	if l.image, err = a.disk.Load(ctx); err != nil {
		return whole, false, err
	}
	lists, err := a.sources.listTables(ctx, lookWithin, func(d *database, err error) { a.note(tablesOf+d.Label(), err) })
	errs := []error{err}
	for _, s := range a.streams {
		if ready[s.Name] && len(s.Patterns) > 0 {
			errs = append(errs, l.stream(ctx, s.Stream, lists))
		}
	}
	if len(l.batch.Shards) > 0 {
		err := a.applyShards(ctx, &l.batch)
		if err == nil {
			err = a.committer.Sync(ctx, &store.Batch{})
		}
		if err != nil {
			return whole, false, errors.Join(append(errs, err)...)
		}
	}
	a.leftOut.Store(&l.leftOut)
	return whole, l.changed, errors.Join(errs...)
}

// applyShards applies b. What the feeds have opened of its shards is opened again.
func (a *App) applyShards(ctx context.Context, b *store.Batch) error {
	release, err := a.committer.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	for _, s := range a.streams {
		s.feed.Reopen(b)
	}
	return a.committer.Commit(ctx, b, stream.Cover{})
}

// stream compares the tables that match with those of a stream.
func (l *lookAt) stream(ctx context.Context, s *config.Stream, lists map[*database]source.TableList) error {
	cfg := l.opts.Config
	// Nothing is concluded from a database that was not compared with the bus.
	lists = maps.Clone(lists)
	maps.DeleteFunc(lists, func(d *database, _ source.TableList) bool {
		return len(cfg.TablesOf(s, d.Source)) > 0 && !l.sources.isAdmitted(s.Name, d)
	})
	var errs []error
	there, has := make(map[string]bool), cfg.Has(s)
	l.sources.eachMatch(s, lists, func(name, pattern string) {
		if there[name] = true; !has(name) {
			errs = append(errs, l.found(ctx, s, name, pattern))
		}
	})
	for d := range lists {
		for _, pattern := range cfg.PatternsOf(s, d.Source) {
			if key := (store.Key{Stream: s.Name, Shard: pattern}); !l.has(key) {
				l.save(key, store.Progress{})
			}
		}
	}
	known, gone := matchedTables(cfg, s, &l.image)
	before := time.Now().Add(-keptLeft)
	if by := steady().Add(-keptLeft).Round(0); by.Before(before) {
		before = by
	}
	for _, table := range gone {
		if key := (store.Key{Stream: s.Name, Shard: table}); !there[table] && l.image.Shards[leftKey(key)].Saved.Before(before) {
			errs = append(errs, l.forget(ctx, s, key, before))
		}
	}
	for _, table := range known {
		d, _ := l.sources.of(table)
		if list, listed := lists[d]; there[table] || !listed || !list.Writer {
			continue
		}
		// The server says so: a login without a grant is not told.
		var page source.Page
		if err := l.sources.Shard(s.Spec(table)).Read(ctx, source.Query{Limit: 1}, &page); errors.Is(err, source.ErrMissing) {
			// The bus may have told of one that the app does not have.
			l.changed = l.changed || has(table)
			l.save(leftKey(store.Key{Stream: s.Name, Shard: table}), store.Progress{Floor: isGone})
			l.logger.Info("a table is gone, what was published of it stays", "stream", s.Name, "shard", table)
		}
	}
	return errors.Join(errs...)
}

// remove drops all that is kept under a key.
func (l *lookAt) remove(key store.Key) {
	l.batch.Shards = append(l.batch.Shards, store.ShardChange{Key: key, Remove: true})
}

func (l *lookAt) has(key store.Key) bool {
	_, has := l.image.Shards[key]
	return has
}

// found notes that a table is there that the stream has not.
func (l *lookAt) found(ctx context.Context, s *config.Stream, name, pattern string) error {
	cfg := l.opts.Config
	key := store.Key{Stream: s.Name, Shard: name}
	err := cfg.CanPublish(s, name)
	waits := !errors.Is(err, config.ErrName)
	if len(s.Tables)+l.added[s.Name] >= source.MaxTables {
		err = fmt.Errorf("the stream has %d tables, more are not allowed", source.MaxTables)
	}
	leave := func(err error) error {
		if before := l.leftOut[s.Name]; before.why == "" || waits && !before.waits {
			l.leftOut[s.Name] = leftOut{fmt.Sprintf("the table %s matches %s and is not published: %s", name, pattern, config.StreamText(s.Name)(err)), waits}
		}
		return nil
	}
	if err != nil {
		return leave(err)
	}
	before := l.image.Shards[key]
	_, looked := l.image.Shards[store.Key{Stream: s.Name, Shard: pattern}]
	// One that was not there at the last look begins with its first row, unless it is known under
	// another name.
	first := looked && !l.has(key) && check.FormerName(cfg, s, name, l.image.Shards) == nil
	if isLeft(&l.image, key) && l.has(key) {
		var page source.Page
		table := l.sources.Shard(s.Spec(name))
		next, err := table.NextID(ctx)
		if err == nil && next == 0 {
			// Without a counter the newest row tells.
			err = table.Read(ctx, source.Query{Limit: 1}, &page)
			next = max(page.MaxID, page.MaxID+1)
		}
		if source.Stops(err) {
			// Where it begins is known once it can be read: it may be another table by then.
			return leave(err)
		}
		if err != nil {
			return err
		}
		first = next <= max(before.Position, before.Floor)
	}
	if l.has(leftKey(key)) {
		l.remove(leftKey(key))
	}
	switch {
	case first:
		// As a person would: bridge checkpoint set, to 0. No message of a former table of this name
		// counts.
		set := stream.SetPosition{Key: key, Kind: s.Kind, Epoch: stream.NextEpoch(&l.image, time.Now()), Now: time.Now()}
		batch, _, err := set.Batch(ctx, l.store)
		if err != nil {
			return err
		}
		l.batch.Epoch = batch.Epoch
		l.batch.Shards = append(l.batch.Shards, batch.Shards...)
	case !l.has(key):
		l.save(key, store.Progress{})
	}
	l.changed = true
	l.added[s.Name]++
	l.logger.Info("a table matches", "stream", s.Name, "shard", name, "pattern", pattern, "from_first", first)
	return nil
}

// forget drops what is kept of a table that is gone since before. That of entities stays, but of
// those that were deleted before: no reconcile of the table does that any more. Rows that have
// expired may come back with it.
func (l *lookAt) forget(ctx context.Context, s *config.Stream, key store.Key, before time.Time) error {
	if s.Kind == event.Capability {
		if entries, err := l.store.ByRow(ctx, key, 0, 1, nil); err != nil || len(entries) > 0 {
			return err
		}
		for slice, n := 2000, 2000; n == slice && s.StaleAfter == 0; {
			var err error
			if n, err = l.store.ForgetAbsent(ctx, key, before, slice); err != nil {
				return err
			}
		}
	}
	l.remove(leftKey(key))
	l.remove(key)
	return nil
}
