package event_test

import (
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
		rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"deleted", source.Int, 0, "1"}).deleted("deleted")
		o := options()
		o.Deletion.Values = []string{"gone"}
		encoder, err := event.NewEncoder(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := encoder.Bind(&rows.columns); err == nil {
			t.Error("a word is taken for a number")
		}
	})
}
