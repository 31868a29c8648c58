package shard

import (
	"sync"
	"time"

	"bridge/source"
)

// page is rows of the table, when they were read, and how old they are. It comes from
// reader.newPage and goes back with free.
type page struct {
	source.Page
	span
	// zone is the zone of DATETIME columns.
	zone *time.Location
	// seen dates rows without a CREATED; nil takes them for as young as the read.
	seen seen
	// late is the page of late rows that was read ahead beside this one, nil where there is none.
	late *latePage
}

// span is when a read began and ended, by the host's clock.
type span struct{ asked, got time.Time }

// seen tells since when the table has been known to hold an id, zero where that is unknown.
type seen interface{ since(id uint64) time.Time }

// latePage is a page of late rows that was read ahead, with the query that it answers.
type latePage struct {
	query source.Query
	page  *page
}

var pages = sync.Pool{New: func() any { return new(page) }}

// free gives the page back, which must not be used afterwards; it may be nil.
func (p *page) free() {
	if p == nil {
		return
	}
	p.dropLate()
	p.Reset()
	*p = page{Page: p.Page}
	pages.Put(p)
}

// dropLate frees the late rows that were read ahead beside the page.
func (p *page) dropLate() {
	if p.late != nil {
		p.late.page.free()
		p.late = nil
	}
}

// created returns the time in the row's CREATED column and that column's resolution; zero when it
// has none.
func (p *page) created(row source.Row) (time.Time, time.Duration) {
	i := p.Columns.Created
	if i < 0 {
		return time.Time{}, 0
	}
	column := p.Columns.List[i]
	created, ok := column.Time(row.Values[i], p.zone)
	if !ok {
		return time.Time{}, 0
	}
	return created, column.Resolution()
}

// bornAt returns the host's time at which the row had the age zero.
func (p *page) bornAt(row source.Row) time.Time {
	if created, _ := p.created(row); !created.IsZero() && !created.After(p.Now) {
		return p.got.Add(-p.Now.Sub(created))
	}
	// No CREATED, or one in the future.
	if p.seen == nil {
		return p.got
	}
	return earlier(p.got, p.seen.since(row.ID))
}

// changedAt returns the host's time at which a row got the state that was read, by its MODIFIED;
// that of the read where MODIFIED does not tell.
func (p *page) changedAt(row source.Row) time.Time {
	i := p.Columns.Modified
	if i < 0 {
		return p.got
	}
	modified, ok := p.Columns.List[i].Time(row.Values[i], p.zone)
	if !ok {
		return p.got
	}
	return p.got.Add(-max(0, p.Now.Sub(modified)))
}
