package event_test

import (
	"slices"
	"testing"

	"bridge/event"
	"bridge/source"
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
		"a number":             {source.Int, []string{"2"}, false, []string{"2"}, []string{"0", "1", "22", "-2"}},
		"a decimal":            {source.Decimal, []string{"2.5"}, false, []string{"2.50"}, []string{"2", "0.00"}},
		"bits":                 {source.Bit, []string{"2"}, false, []string{"\x02", "\x00\x02"}, []string{"\x01", "\x00"}},
		"all but a word":       {source.Text, []string{"active"}, true, []string{"DELETED", "1"}, []string{"ACTIVE", "", "n"}},
		"all but a far time":   {source.DateTime, []string{"9999-12-31"}, true, []string{"2026-01-01 00:00:00"}, []string{"9999-12-31 23:59:59", "0000-00-00 00:00:00"}},
		"a time, by its begin": {source.Timestamp, []string{"1970-01-01 00:00:01"}, false, []string{"1970-01-01 00:00:01.000"}, []string{"2026-01-01 00:00:00.000"}},
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
				encoder, err := event.NewEncoder(o)
				if err != nil {
					t.Fatal(err)
				}
				if err := encoder.Bind(&rows.columns); (err != nil) != (i < len(c.never)) {
					t.Errorf("kind %d: the value %q: %v", c.kind, value, err)
				}
			}
		}
	})
}
