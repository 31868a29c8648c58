package source_test

import (
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

// TestExpire: a row is stale by the database's clock alone, never before its time, and a read by
// key leaves it out.
func TestExpire(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	shanghai := time.FixedZone("", 8*3600)
	for name, c := range map[string]struct {
		column source.Column
		value  string
		stale  bool
	}{
		"long ago":                                   {source.Column{Kind: source.Timestamp, Precision: 3}, "2026-03-01 11:00:00.000", true},
		"on the moment, of whole seconds":            {source.Column{Kind: source.Timestamp}, "2026-03-01 11:50:00", false},
		"a second later, of whole seconds":           {source.Column{Kind: source.Timestamp}, "2026-03-01 11:49:59", true},
		"on the moment, of microseconds":             {source.Column{Kind: source.Timestamp, Precision: 6}, "2026-03-01 11:49:59.999999", true},
		"less than that, of microseconds":            {source.Column{Kind: source.Timestamp, Precision: 6}, "2026-03-01 11:50:00.000000", false},
		"in the zone of the stream":                  {source.Column{Kind: source.DateTime}, "2026-03-01 19:55:00", false},
		"long ago in the zone of the stream":         {source.Column{Kind: source.DateTime}, "2026-03-01 19:40:00", true},
		"in the future":                              {source.Column{Kind: source.Timestamp}, "2026-03-01 13:00:00", false},
		"at the end of time":                         {source.Column{Kind: source.DateTime}, "9999-12-31 23:59:59", false},
		"a zero date":                                {source.Column{Kind: source.DateTime}, "0000-00-00 00:00:00", false},
		"never":                                      {source.Column{Kind: source.Timestamp}, "", false},
		"a day, which may have been touched all day": {source.Column{Kind: source.Date}, "2026-03-01", false},
	} {
		spec := source.Spec{StaleAfter: 10 * time.Minute, Zone: shanghai}
		for _, q := range []source.Query{{Limit: 1}, {Keys: [][][]byte{{[]byte("k")}}}} {
			p := page(c.column, now, c.value)
			spec.Expire(&q, p)
			switch {
			case q.Keys == nil && (len(p.Rows) != 1 || p.Rows[0].Stale != c.stale || len(p.Expired) > 0):
				t.Errorf("%s: %+v", name, p.Rows)
			case q.Keys != nil && (len(p.Rows) == 0) != c.stale, q.Keys != nil && (len(p.Expired) == 1) != c.stale:
				t.Errorf("%s, by key: %+v, left out %+v", name, p.Rows, p.Expired)
			}
		}
		p := page(c.column, now, c.value)
		if new(source.Spec).Expire(new(source.Query), p); p.Rows[0].Stale {
			t.Errorf("%s: without STALE_AFTER it is stale", name)
		}
	}
}

// page has one row with a MODIFIED, NULL where that is empty.
func page(column source.Column, now time.Time, value string) *source.Page {
	p := new(source.Page)
	refill(p, column, now, value)
	return p
}

func refill(p *source.Page, column source.Column, now time.Time, value string) {
	p.Reset()
	p.Columns, p.Now = &source.Columns{List: []source.Column{{Name: "id", Kind: source.Int}, column}, Modified: 1}, now
	p.Append(1, 2)
	if value != "" {
		p.Set(1, []byte(value))
	}
}

// TestExpireWhereClocksAreSetBack: of a time that the zone shows twice the later moment counts, so
// that no row expires that was touched a second ago.
func TestExpireWhereClocksAreSetBack(t *testing.T) {
	t.Parallel()
	apart := testall.Cases(390*time.Minute, 30*time.Minute)
	for _, name := range []string{"America/New_York", "Europe/Berlin", "Australia/Sydney", "Australia/Lord_Howe"} {
		zone := must.Get(time.LoadLocation(name))(t)
		p := new(source.Page) // one for all: the memory of each would take longest
		// Each half hour around a change of the clocks, and with all cases of the other days, too.
		step := func(now time.Time) time.Duration {
			_, before := now.Add(-36 * time.Hour).In(zone).Zone()
			if _, behind := now.Add(36 * time.Hour).In(zone).Zone(); before != behind {
				return 30 * time.Minute
			}
			return apart
		}
		for now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); now.Year() == 2026; now = now.Add(step(now)) {
			for ago, most := range map[time.Duration]bool{time.Second: false, 3 * time.Hour: true} {
				refill(p, source.Column{Kind: source.DateTime}, now, now.Add(-ago).In(zone).Format(time.DateTime))
				spec := source.Spec{StaleAfter: 10 * time.Minute, Zone: zone}
				if spec.Expire(new(source.Query), p); p.Rows[0].Stale != most {
					t.Fatalf("%s, %s: touched %s ago, stale: %v", name, now, ago, p.Rows[0].Stale)
				}
			}
		}
	}
}
