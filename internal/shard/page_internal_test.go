package shard

import (
	"testing"
	"time"

	"bridge/source"
)

// aged returns a page that was read at a host's time of got, by a database whose clock said now,
// with one row of these values.
func aged(got, now time.Time, created, modified string) *page {
	p := (&reader{opts: &Options{Zone: time.UTC}}).newPage()
	p.got, p.Now = got, now
	p.Columns = &source.Columns{
		List: []source.Column{
			{Name: "id", Kind: source.Int}, {Name: "created", Kind: source.DateTime}, {Name: "modified", Kind: source.DateTime},
		},
		Created: 1, Modified: 2, Deleted: -1,
	}
	p.Append(7, 3)
	if created != "" {
		p.Set(1, []byte(created))
	}
	if modified != "" {
		p.Set(2, []byte(modified))
	}
	return p
}

// since dates every id.
type since time.Time

func (s since) since(uint64) time.Time { return time.Time(s) }

func TestAgeOfARow(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// The host's clock is another one.
	got := now.Add(time.Hour)
	const minuteAgo, inAMinute = "2026-01-02 03:03:05", "2026-01-02 03:05:05"
	for name, c := range map[string]struct {
		created, modified string
		seen              seen
		born, changed     time.Duration
	}{
		"counts from CREATED, by the database's clock":         {created: minuteAgo, born: time.Minute},
		"counts from CREATED, though the id was seen before":   {created: minuteAgo, seen: since(got.Add(-time.Hour)), born: time.Minute},
		"is 0 where CREATED is in the future":                  {created: inAMinute},
		"is 0 where nothing tells":                             {},
		"counts from when the id was first seen":               {seen: since(got.Add(-time.Second)), born: time.Second},
		"counts from then where CREATED is in the future, too": {created: inAMinute, seen: since(got.Add(-time.Second)), born: time.Second},
		"is 0 where the id was not seen before":                {seen: since{}},
		"of a change counts from MODIFIED":                     {modified: minuteAgo, changed: time.Minute},
		"of a change is 0 where MODIFIED is in the future":     {modified: inAMinute},
	} {
		t.Run(name, func(t *testing.T) {
			p := aged(got, now, c.created, c.modified)
			defer p.free()
			p.seen = c.seen
			if born := p.bornAt(p.Rows[0]); got.Sub(born) != c.born {
				t.Errorf("a row is %s old, want %s", got.Sub(born), c.born)
			}
			if changed := p.changedAt(p.Rows[0]); got.Sub(changed) != c.changed {
				t.Errorf("a change is %s old, want %s", got.Sub(changed), c.changed)
			}
		})
	}
}

func TestLateRowsThatWereReadAheadAreUsedForTheirOwnRangesAlone(t *testing.T) {
	r := &reader{opts: new(Options)}
	ranges := []source.Range{{First: 1, Last: 3}}
	p, late := r.newPage(), r.newPage()
	defer p.free()
	p.late = &latePage{query: source.Query{Ranges: ranges}, page: late}
	if p.popLate(ranges) != late {
		t.Error("they are not used for their own ranges")
	}
	if p.popLate(ranges) != nil {
		t.Error("they are used twice")
	}
	p.late = &latePage{query: source.Query{Ranges: ranges}, page: late}
	if p.popLate(ranges[:0]) != nil || p.late != nil {
		t.Error("they are used, or kept, for other ranges")
	}
}

func TestAPageIsUsedAgainEmpty(t *testing.T) {
	(*page)(nil).free()
	r := &reader{opts: new(Options)}
	p := aged(time.Now(), time.Now(), "", "")
	p.seen, p.late = since{}, &latePage{page: r.newPage()}
	p.free()
	next := r.newPage()
	defer next.free()
	if len(next.Rows) > 0 || next.Columns != nil || next.seen != nil || next.late != nil || !next.got.IsZero() {
		t.Errorf("the next read finds %+v", next)
	}
}
