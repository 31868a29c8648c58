package shard

import (
	"time"

	"bridge/source"
	"bridge/source/ledger"
)

// stable returns the records of the page that are old enough. Young ones stay behind as gaps and stall nothing, save with GapHold,
// where the first of them ends the page.
func (s *Shard) stable(p *page, at ledger.Age) []source.Row {
	hold := s.opts.GapPolicy == ledger.GapHold
	kept := s.kept[:0]
	for _, record := range p.Rows {
		if s.isStable(p, record, at) {
			kept = append(kept, record)
			continue
		}
		s.hold(p, record)
		if hold {
			break
		}
	}
	s.kept = kept
	return kept
}

// isStable reports whether the record of page is old enough. CREATED is read of those alone whose id was not seen long enough ago: of
// a backlog of none.
func (s *Shard) isStable(page *page, record source.Row, at ledger.Age) bool {
	if s.window.Stable(record.ID, time.Time{}, 0, at) {
		return true
	}
	created, resolution := page.created(record)
	return s.window.Stable(record.ID, created, resolution, at)
}

// hold notes a record that stays behind unpublished, for the lag.
func (s *Shard) hold(page *page, record source.Row) {
	s.held = earlier(s.held, page.bornAt(record))
}

// holdRest notes those records that stay behind of which the first done are taken care of: the first of them, as the others are hardly older.
func (s *Shard) holdRest(page *page, records []source.Row, done int) {
	if done < len(records) {
		s.hold(page, records[done])
	}
}

// holdLate notes those late records that stay behind of which the first done are taken care of.
func (s *Shard) holdLate(late *page, done int) {
	if late != nil {
		s.holdRest(late, late.Rows, done)
	}
}
