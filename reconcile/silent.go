package reconcile

import (
	"context"
	"slices"

	"bridge/checkpoint/store"
)

// silent are rows that are news only of an entity that is there, without an entry under their id.
type silent struct {
	rows     []uint64
	entities [][]byte
	known    []store.Entry
}

func (s *silent) add(row uint64, entity []byte) {
	s.rows, s.entities = append(s.rows, row), append(s.entities, slices.Clone(entity))
}

// compareSilent nominates those silent rows whose entity was published with another row: it is
// looked up, as most of them have no entity.
func compareSilent(ctx context.Context, p *pass) error {
	s := &p.rows.silent
	if len(s.rows) == 0 {
		return nil
	}
	err := p.retry(ctx, "look up the view", func() (err error) {
		s.known, err = p.opts.View.Lookup(ctx, p.opts.Shard, s.entities, s.known[:0])
		return err
	})
	if err != nil {
		return err
	}
	begun := false
	for i := range s.known {
		if s.known[i].State == store.Unknown || s.known[i].State == store.Absent && !s.known[i].Disputed {
			continue
		}
		if !begun || p.rows.full() {
			// The rows of a nomination ascend, and later rows of the page are gathered already.
			if err := p.rows.send(ctx); err != nil {
				return err
			}
		}
		begun = true
		p.rows.row(s.rows[i])
	}
	clear(s.entities)
	s.rows, s.entities = s.rows[:0], s.entities[:0]
	return nil
}
