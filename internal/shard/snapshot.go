package shard

import (
	"context"
	"time"

	"bridge/checkpoint"
	"bridge/source"
)

// takeSnapshot records the rows of a table that is taken as it stands (START=latest, or behind an id) in the view and publishes
// nothing. It goes on where an earlier start of the process was cut short.
func (s *Shard) takeSnapshot(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	if s.view == nil {
		// Of a release shard the position says enough.
		state.Snapshot = source.Range{}
	}
	if state.Snapshot == (source.Range{}) {
		return state, nil
	}
	started, told := time.Now(), time.Now()
	for rows := 0; state.Snapshot != (source.Range{}); {
		q := source.Query{After: state.Snapshot.First - 1, Through: state.Snapshot.Last, Limit: s.opts.BatchRows, MaxBytes: s.opts.Limits.pageBytes()}
		p, err := s.reader.page(ctx, q)
		if err != nil {
			return state, err
		}
		changes, err := s.snapshot(p)
		if err != nil {
			p.free()
			return state, err
		}
		n := len(p.Rows)
		rows += n
		// A page that is full may hold the last row.
		if p.More && n > 0 && p.Rows[n-1].ID < state.Snapshot.Last {
			state.Snapshot.First = p.Rows[n-1].ID + 1
		} else {
			state.Snapshot = source.Range{}
		}
		p.free()
		step := state
		step.View, step.Ledger, step.ReplaceLedger, step.Published = changes, nil, false, nil
		if err := s.saver.save(ctx, owning, step); err != nil {
			return state, err
		}
		if time.Since(told) > tellEvery {
			told = time.Now()
			s.opts.Logger.Info("recording the table as it stands", "rows", rows, "through", state.Snapshot.First, "of", state.Snapshot.Last,
				"rows a second", int(float64(rows)/time.Since(started).Seconds()))
		}
	}
	s.opts.Logger.Info("the table as it stands is known, changes from now on are published", "took", time.Since(started).Round(time.Millisecond))
	return state, nil
}

// snapshot returns the entries of the view that the rows of the page make.
func (s *Shard) snapshot(p *page) ([]checkpoint.Change, error) {
	changes := make([]checkpoint.Change, 0, len(p.Rows))
	keys := new(batch)
	for _, record := range p.Rows {
		if s.gaps.missing(record.ID) {
			// It was not committed when the shard began: it is a change since.
			continue
		}
		seen, err := s.view.digest(record)
		if err != nil {
			return nil, err
		}
		one := decision{digest: seen.Sum, deleted: seen.Deleted}
		changes = append(changes, checkpoint.Change{Entity: keys.keep(seen.Entity), Known: one.entry(record.ID, [16]byte{})})
	}
	return changes, nil
}
