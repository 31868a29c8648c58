package event_test

import (
	"bytes"
	"testing"

	"bridge/event"
)

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
