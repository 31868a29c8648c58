package stream

import (
	"context"
	"time"

	"example.org/bridge/checkpoint/store"
)

// flushAgain returns what changes of what is published again.
func (s *ShardState) flushAgain(table store.Key, now time.Time) (c store.ShardChange, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.againChanged {
		return c, false
	}
	s.againChanged = false
	return s.again.Change(table, now), true
}

// Republish returns what was asked to be published again, nil for nothing.
func (s *ShardState) Republish() *Republish {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.again.Clone()
}

// Republishes reports whether something is left of that.
func (s *ShardState) Republishes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.again.Running()
}

// ChangeRepublish has change make a new request of the last one of each table, nil for none. It
// commits all of them or, with an error of change, none; nil leaves a table as it is. The caller
// syncs the store.
func (f *Feed) ChangeRepublish(ctx context.Context, tables []string, change func(table string, last *Republish) (*Republish, error)) error {
	return f.opts.Committer.Still(ctx, func(store.Store) error {
		b, changed := &store.Batch{}, make(map[string]*Republish)
		for _, table := range tables {
			key := store.Key{Stream: f.opts.Stream, Shard: table}
			last, err := LoadRepublish(ctx, f.opts.Store, key)
			if err != nil {
				return err
			}
			next, err := change(table, last)
			if err != nil {
				return err
			}
			if next != nil {
				b.Shards, changed[table] = append(b.Shards, next.Change(key, time.Now())), next
			}
		}
		if err := f.opts.Committer.Commit(ctx, b, Cover{}); err != nil {
			return err
		}
		for table, next := range changed {
			if table == ListName {
				f.lists.last.Store(next.Clone())
				continue
			}
			f.state(table).setAgain(next)
		}
		return nil
	})
}

func (s *ShardState) setAgain(r *Republish) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again, s.againChanged = r, false
	s.shown.Store(r.Clone())
}

// OpenRepublish has what the store says be known of a shard that does not run yet. It waits for
// nobody.
func (f *Feed) OpenRepublish(ctx context.Context, name string) error {
	asked, err := LoadRepublish(ctx, f.opts.Store, store.Key{Stream: f.opts.Stream, Shard: name})
	if err == nil {
		err = f.lists.Open(ctx)
	}
	s := f.shards[name]
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.again == nil {
		s.again = asked
		s.shown.Store(asked.Clone())
	}
	return err
}

// Republish returns what was asked to be published again of a shard of the configuration, nil for
// nothing. It waits for nobody, so a status may ask under a lock. It must not be changed.
func (f *Feed) Republish(name string) *Republish { return f.shards[name].shown.Load() }

// NameOfTP returns the name of the TP of a registration that is in force, empty for another number.
func (f *Feed) NameOfTP(number uint32) string {
	c := f.opts.Committer
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tps.get(number); t != nil {
		return t.TP
	}
	return ""
}
