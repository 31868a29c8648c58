package source

import (
	"slices"
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
		touched, ok := column.Time(row.Values[i], s.Zone)
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
