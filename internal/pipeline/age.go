package pipeline

import (
	"time"

	"bridge/source"
)

// stable returns the records of the page that are old enough. Young ones stay behind as gaps and stall nothing, save with GapHold,
// where the first of them ends the page.
func (s *Shard) stable(at source.Age) []source.Record {
	hold := s.opts.GapPolicy == source.GapHold
	kept := s.kept[:0]
	for _, record := range s.page.Records {
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
func (s *Shard) isStable(page *source.Page, record source.Record, at source.Age) bool {
	if s.window.Stable(record.ID, time.Time{}, 0, at) {
		return true
	}
	created, resolution := s.created(page, record)
	return s.window.Stable(record.ID, created, resolution, at)
}

// hold notes a record that stays behind unpublished, for the lag.
func (s *Shard) hold(page *source.Page, record source.Record) {
	if born := s.bornAt(page, record, time.Now()); s.held.IsZero() || born.Before(s.held) {
		s.held = born
	}
}

// created returns the time in the record's CREATED column and that column's resolution; zero when it has none.
func (s *Shard) created(page *source.Page, record source.Record) (time.Time, time.Duration) {
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
func (s *Shard) bornAt(page *source.Page, record source.Record, now time.Time) time.Time {
	if page == s.page {
		now = s.answered.at
	}
	if created, _ := s.created(page, record); !created.IsZero() {
		return now.Add(-max(0, page.Now.Sub(created)))
	}
	if seen, ok := s.window.FirstSeen(record.ID); ok {
		return now.Add(-max(0, page.Now.Sub(seen)))
	}
	return now
}
