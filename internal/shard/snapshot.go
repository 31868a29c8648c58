package shard

import (
	"context"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/view"
	"bridge/source"
)

// snapshot records the rows of a table that is taken as it stands (START=latest, or behind an id)
// in the view and publishes nothing. It goes on where an earlier start of the process was cut
// short.
type snapshot struct {
	opts     *Options
	reader   *reader
	gaps     *gaps
	entities *entities
}

// run records what is left of the table.
func (s *snapshot) run(ctx context.Context) error {
	p := s.gaps.progress
	if s.entities == nil {
		// Of a release shard the position says enough.
		p.SetSnapshot(source.Range{})
	}
	if p.Snapshot() == (source.Range{}) {
		return nil
	}
	started, logged := time.Now(), time.Now()
	for rows := 0; p.Snapshot() != (source.Range{}); {
		n, err := s.page(ctx)
		if err != nil {
			return err
		}
		rows += n
		if time.Since(logged) > tellEvery {
			logged = time.Now()
			s.opts.Logger.Info("recording the table as it stands", "rows", rows, "through", p.Snapshot().First, "of", p.Snapshot().Last,
				"rows_per_second", int(float64(rows)/time.Since(started).Seconds()))
		}
	}
	s.opts.Logger.Info("the table as it stands is known, changes from now on are published", "took", time.Since(started).Round(time.Millisecond))
	return nil
}

// page records the next rows of what is left, and returns how many they are.
func (s *snapshot) page(ctx context.Context) (rows int, err error) {
	left := s.gaps.progress.Snapshot()
	q := source.Query{After: left.First - 1, Through: left.Last, Limit: s.opts.BatchRows, MaxBytes: s.opts.Limits.pageBytes()}
	p, err := s.reader.page(ctx, q)
	if err != nil {
		return 0, err
	}
	defer p.free()
	n := len(p.Rows)
	// A page that is full may hold the last row.
	if p.More && n > 0 && p.Rows[n-1].ID < left.Last {
		left.First = p.Rows[n-1].ID + 1
	} else {
		left = source.Range{}
	}
	return n, s.record(ctx, p, left)
}

// record commits what the rows of p say, and what is left behind them. A row that was not committed
// when the shard began is a change since, and left to the tail.
func (s *snapshot) record(ctx context.Context, p *page, left source.Range) error {
	var rows []source.Row
	for _, row := range p.Rows {
		if !s.gaps.missing(row.ID) {
			rows = append(rows, row)
		}
	}
	b := &batch{batchTimes: batchTimes{made: time.Now()}}
	s.entities.begin(b)
	decisions, err := s.entities.decide(ctx, b, rows)
	if err != nil {
		s.opts.View.Release(b.claims)
		return err
	}
	s.gaps.progress.SetSnapshot(left)
	change, err := s.gaps.progress.Flush(time.Now())
	if err == nil {
		at := func(int) (store.At, view.Stamp) { return store.At{}, view.Stamp{} }
		err = s.entities.retrier.writeStore(ctx, owning, func() error {
			return s.opts.Feed.commit(s.opts.Name, &change, 0, func() error {
				return s.opts.View.Acknowledge(b.claims, at, func(changes []store.Change) error {
					whole := &store.Batch{Shards: []store.ShardChange{change}}
					if len(changes) > 0 {
						whole.Views = []store.ViewChange{{Stream: s.opts.Stream, Changes: changes}}
					}
					return s.opts.Committer.Acknowledged(ctx, 0, nil, whole)
				})
			})
		})
	}
	if err != nil {
		s.opts.View.Release(b.claims)
		return err
	}
	s.entities.nominate(decisions)
	return nil
}
