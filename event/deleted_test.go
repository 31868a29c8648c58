package event_test

import (
	"bytes"
	"slices"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func TestValuesOfDELETED(t *testing.T) {
	column := func(kind source.Kind) source.Column { return source.Column{Name: "x", Kind: kind} }
	for name, c := range map[string]struct {
		kind       source.Kind
		values     []string
		except     bool
		dead, live []string
	}{
		"words":                {source.Text, []string{"DELETED", "archived"}, false, []string{"DELETED", "deleted", "Archived"}, []string{"ACTIVE", "", "1", "DELETED "}},
		"bits":                 {source.Bit, []string{"2"}, false, []string{"\x02", "\x00\x02"}, []string{"\x01", "\x00"}},
		"all but a word":       {source.Text, []string{"active"}, true, []string{"DELETED", "1"}, []string{"ACTIVE", "", "n"}},
		"all but a far time":   {source.DateTime, []string{"9999-12-31"}, true, []string{"2026-01-01 00:00:00"}, []string{"9999-12-31 23:59:59", "0000-00-00 00:00:00"}},
		"a time, by its begin": {source.Timestamp, []string{"1970-01-01 00:00:01"}, false, []string{"1970-01-01 00:00:01.000"}, []string{"2026-01-01 00:00:00.000"}},
		"0 as a Unix time":     {source.Timestamp, nil, false, []string{"1970-01-01 00:00:00.000001"}, []string{"1970-01-01 00:00:00.000000", "0000-00-00 00:00:00"}},
		"no Unix time":         {source.DateTime, nil, false, []string{"1970-01-01 00:00:00.000000"}, []string{"0000-00-00 00:00:00.000000"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := event.Deletion{Values: c.values, Except: c.except}
			if d.Says(column(c.kind), nil) {
				t.Error("NULL is deleted")
			}
			for want, values := range map[bool][]string{true: c.dead, false: c.live} {
				for _, v := range values {
					if got := d.Says(column(c.kind), []byte(v)); got != want {
						t.Errorf("%q is deleted: %v", v, got)
					}
				}
			}
		})
	}
	t.Run("that a column never has are refused", func(t *testing.T) {
		for _, c := range []struct {
			kind      source.Kind
			precision int
			never     []string
			has       []string
		}{
			{source.Int, 0, []string{"gone"}, []string{"1", "-1"}},
			{source.Date, 0, []string{"DELETED", "2026-13", "2026-01-32", "9999-12-31 00:00:00", "31.12.9999"}, []string{"9999-12-31", "2026-02", "2026", "0000-00-00"}},
			{source.DateTime, 0, []string{"9999-12-31T23", "9999-12-31 24", "9999-12-31 23:59:59.999", "DELETED", "NULL", "-1", "1", "2026-3"}, []string{"9999-12-31 23:59:59", "9999-12-31 2", "2026-1", "2026-12-"}},
			{source.Timestamp, 3, []string{"2026-01-01 00:00:60", "2026-01-01 00:00:00.0000", "2026-4"}, []string{"1970-01-01 00:00:01.000", "1970"}},
			{source.Clock, 0, []string{"gone", "1"}, []string{"00:00:00", "-838:59:59"}},
			{source.Text, 0, nil, []string{"gone"}},
		} {
			for i, value := range slices.Concat(c.never, c.has) {
				rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"deleted", c.kind, c.precision, nil}).deleted("deleted")
				o := options()
				o.Deletion.Values = []string{value}
				encoder := must.Get(event.NewEncoder(o))(t)
				if err := encoder.Bind(&rows.columns); (err != nil) != (i < len(c.never)) {
					t.Errorf("kind %d: the value %q: %v", c.kind, value, err)
				}
			}
		}
	})
}

func TestRowsThatDoNotMatch(t *testing.T) {
	encodeRow := func(o event.Options, rows *table, filtered bool) event.Event {
		row := rows.row(8)
		row.Filtered = filtered
		return encode(t, o, rows, row)
	}
	t.Run("a row that says that it is deleted is a tombstone", func(t *testing.T) {
		marked := encodeRow(stpOptions(), stpCapability("64", "Y"), false)
		both := encodeRow(stpOptions(), stpCapability("64", "Y"), true)
		if !bytes.Equal(both.Body, marked.Body) || both.ID != marked.ID {
			t.Errorf("got %s, want %s", both.Body, marked.Body)
		}
	})
	t.Run("the same state deleted by a column is another fact", func(t *testing.T) {
		o := stpOptions()
		// Without the column, the digest does not tell the two.
		o.Fields = []event.Field{{"stp_name", ""}, {"capability_key", ""}, {"capability_value", ""}}
		marked, not := encodeRow(o, stpCapability("64", "Y"), false), encodeRow(o, stpCapability("64", "N"), true)
		if marked.Digest != not.Digest || marked.ID == not.ID || not.Op != event.Deleted {
			t.Errorf("got %s and %s", marked.Body, not.Body)
		}
	})
	t.Run("the caller leaves them out of a release stream", func(t *testing.T) {
		if e := encodeRow(releaseOptions(), releaseHistory(), true); e.Op != event.Published {
			t.Errorf("got %s", e.Body)
		}
	})
	t.Run("a digest tells them", func(t *testing.T) {
		for _, c := range []struct {
			deleted  string
			filtered bool
			want     [2]bool
		}{
			{"N", false, [2]bool{false, false}}, {"N", true, [2]bool{true, true}}, {"Y", false, [2]bool{true, false}}, {"Y", true, [2]bool{true, true}},
		} {
			rows := stpCapability("64", c.deleted)
			e := bind(t, stpOptions(), rows)
			row := rows.row(8)
			row.Filtered = c.filtered
			if d, err := e.Digest(row.Row); err != nil || [2]bool{d.Deleted, d.Silent} != c.want {
				t.Errorf("%+v: %+v, %v", c, d, err)
			}
		}
	})
}
