package source

import (
	"slices"
	"time"
)

// Expire finds the rows of p, the answer to q, that were not touched for StaleAfter by the
// database's clock: they count as rows that are not there. A read by key leaves them out, and
// others flag them, so that their ids leave no gap. A row without a time in MODIFIED never expires.
func (s *Spec) Expire(q *Query, p *Page) {
	if s.StaleAfter == 0 || p.Columns == nil || p.Columns.Modified < 0 {
		return
	}
	i := p.Columns.Modified
	column := p.Columns.List[i]
	for at := range p.Rows {
		row := &p.Rows[at]
		touched, ok := s.touched(column, row.Values[i])
		// The column may have cut off the last part of a second.
		row.StaleFor = p.Now.Sub(touched) - column.Resolution() - s.StaleAfter
		if row.Stale = ok && row.StaleFor >= 0; !row.Stale {
			row.StaleFor = 0
		}
	}
	if q.Keys == nil {
		return
	}
	p.Rows = slices.DeleteFunc(p.Rows, func(row Row) bool {
		if row.Stale {
			p.Expired = append(p.Expired, row)
		}
		return row.Stale
	})
}

// touched returns the moment that v, a MODIFIED, shows, the later one where the zone shows a time
// twice: no row expires early.
func (s *Spec) touched(column Column, v []byte) (time.Time, bool) {
	t, ok := column.Time(v, s.Zone)
	if !ok || column.Kind == Timestamp || s.Zone == nil {
		return t, ok
	}
	// The clocks of a zone are set back once within a day, mostly by an hour.
	_, before := t.Add(-24 * time.Hour).In(s.Zone).Zone()
	_, after := t.Add(24 * time.Hour).In(s.Zone).Zone()
	_, at := t.In(s.Zone).Zone()
	later := t.Add(time.Duration(max(before, at)-min(after, at)) * time.Second)
	if _, then := later.In(s.Zone).Zone(); later.After(t) && later.Sub(t) == time.Duration(at-then)*time.Second {
		return later, true
	}
	return t, true
}
