package shard

import (
	"time"

	"bridge/source"
	"bridge/source/ledger"
)

// stable returns the records of the page that are old enough. Young ones stay behind as gaps and stall nothing, save with GapHold,
// where the first of them ends the page.
func (s *Shard) stable(at ledger.Age) []source.Row {
	hold := s.opts.GapPolicy == ledger.GapHold
	kept := s.kept[:0]
	for _, record := range s.page.Rows {
		if s.isStable(s.page, record, at) {
			kept = append(kept, record)
			continue
		}
		s.hold(s.page, record)
		if hold {
			break
		}
	}
	s.kept = kept
	return kept
}

// isStable reports whether the record of page is old enough. CREATED is read of those alone whose id was not seen long enough ago: of
// a backlog of none.
func (s *Shard) isStable(page *source.Page, record source.Row, at ledger.Age) bool {
	if s.window.Stable(record.ID, time.Time{}, 0, at) {
		return true
	}
	created, resolution := s.created(page, record)
	return s.window.Stable(record.ID, created, resolution, at)
}

// hold notes a record that stays behind unpublished, for the lag.
func (s *Shard) hold(page *source.Page, record source.Row) {
	s.held = earlier(s.held, s.bornAt(page, record, time.Now()))
}

// holdRest notes those records that stay behind of which the first done are taken care of: the first of them, as the others are hardly older.
func (s *Shard) holdRest(page *source.Page, records []source.Row, done int) {
	if done < len(records) {
		s.hold(page, records[done])
	}
}

// created returns the time in the record's CREATED column and that column's resolution; zero when it has none.
func (s *Shard) created(page *source.Page, record source.Row) (time.Time, time.Duration) {
	i := page.Columns.Created
	if i < 0 {
		return time.Time{}, 0
	}
	column := page.Columns.List[i]
	created, ok := column.Time(record.Values[i], s.opts.Zone)
	if !ok {
		return time.Time{}, 0
	}
	return created, column.Resolution()
}

// bornAt is the host's time at which the record had the age zero; now is the host's clock when page was read, about. That of the tail may have
// waited, and when it was read is known.
func (s *Shard) bornAt(page *source.Page, record source.Row, now time.Time) time.Time {
	if page == s.page {
		now = s.answered.at
	}
	if created, _ := s.created(page, record); !created.IsZero() && !created.After(page.Now) {
		return now.Add(-page.Now.Sub(created))
	}
	// No CREATED, or one that is not to be believed.
	switch page {
	case s.page:
		return earlier(now, s.heights.since(record.ID))
	case s.gaps.late:
		return earlier(now, s.gaps.landing.since)
	}
	return now
}

// changedAt is the host's time at which a row got the state that was read, by its MODIFIED; now where that does not tell.
func (s *Shard) changedAt(page *source.Page, record source.Row, now time.Time) time.Time {
	i := page.Columns.Modified
	if i < 0 {
		return now
	}
	modified, ok := page.Columns.List[i].Time(record.Values[i], s.opts.Zone)
	if !ok {
		return now
	}
	return now.Add(-max(0, page.Now.Sub(modified)))
}

// hostTime returns the host's time of a moment by the database's clock, at the latest now.
func (s *Shard) hostTime(at time.Time) time.Time {
	now := time.Now()
	return earlier(now, now.Add(at.Sub(s.databaseNow())))
}

// holdLate notes those late records that stay behind of which the first done are taken care of.
func (s *Shard) holdLate(done int) {
	if late := s.gaps.late; late != nil {
		s.holdRest(late, late.Rows, done)
	}
}
