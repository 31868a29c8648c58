package shard

import (
	"context"
	"time"

	"bridge/checkpoint"
	"bridge/source"
)

// snapshot records the rows of a table that is taken as it stands (START=latest, or behind an id) in
// the view and publishes nothing. It goes on where an earlier start of the process was cut short.
type snapshot struct {
	opts   *Options
	reader *reader
	saver  *saver
	gaps   *gaps
	view   *view
}

// run records what state says is left of the table, and returns the state to go on from.
func (s *snapshot) run(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	if s.view == nil {
		// Of a release shard the position says enough.
		state.Snapshot = source.Range{}
	}
	if state.Snapshot == (source.Range{}) {
		return state, nil
	}
	started, logged := time.Now(), time.Now()
	for rows := 0; state.Snapshot != (source.Range{}); {
		changes, n, left, err := s.page(ctx, state.Snapshot)
		if err != nil {
			return state, err
		}
		rows += n
		state.Snapshot = left
		step := state
		step.View, step.Ledger, step.ReplaceLedger, step.Published = changes, nil, false, nil
		if err := s.saver.save(ctx, owning, step); err != nil {
			return state, err
		}
		if time.Since(logged) > tellEvery {
			logged = time.Now()
			s.opts.Logger.Info("recording the table as it stands", "rows", rows, "through", state.Snapshot.First, "of", state.Snapshot.Last,
				"rows a second", int(float64(rows)/time.Since(started).Seconds()))
		}
	}
	s.opts.Logger.Info("the table as it stands is known, changes from now on are published", "took", time.Since(started).Round(time.Millisecond))
	return state, nil
}

// page reads the next rows of what is left. It returns the entries of the view that they make, how
// many they are, and what is left then.
func (s *snapshot) page(ctx context.Context, left source.Range) (changes []checkpoint.Change, rows int, _ source.Range, err error) {
	q := source.Query{After: left.First - 1, Through: left.Last, Limit: s.opts.BatchRows, MaxBytes: s.opts.Limits.pageBytes()}
	p, err := s.reader.page(ctx, q)
	if err != nil {
		return nil, 0, left, err
	}
	defer p.free()
	if changes, err = s.changes(p); err != nil {
		return nil, 0, left, err
	}
	n := len(p.Rows)
	// A page that is full may hold the last row.
	if p.More && n > 0 && p.Rows[n-1].ID < left.Last {
		return changes, n, source.Range{First: p.Rows[n-1].ID + 1, Last: left.Last}, nil
	}
	return changes, n, source.Range{}, nil
}

// changes returns the entries of the view that the rows of p make.
func (s *snapshot) changes(p *page) ([]checkpoint.Change, error) {
	b := &batch{changes: make([]checkpoint.Change, 0, len(p.Rows))}
	for _, row := range p.Rows {
		if s.gaps.missing(row.ID) {
			// It was not committed when the shard began: it is a change since.
			continue
		}
		digest, err := s.view.digest(row)
		if err != nil {
			return nil, err
		}
		one := decision{digest: digest.Sum, deleted: digest.Deleted}
		b.change(digest.Entity, one.entry(row.ID, [16]byte{}))
	}
	return b.changes, nil
}
