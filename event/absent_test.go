package event_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"bridge/event"
	"bridge/source"
)

func TestAppendAbsentRefusesWhatItCannotEncode(t *testing.T) {
	rows := lifeRow("A", "0")
	key := encode(t, options(), rows, rows.row(1)).Key
	good := event.Absent{Key: key, ID: 7, Read: readAt, Predecessor: earlier}
	bound := bind(t, options(), rows)
	unbound, err := event.NewEncoder(options())
	if err != nil {
		t.Fatal(err)
	}
	release := options()
	release.Kind = event.Release
	short, timeless, alien := good, good, good
	short.Key = []byte("%4")
	timeless.Read = time.Time{}
	alien.Predecessor = strings.ToUpper(earlier)
	for _, test := range []struct {
		name    string
		encoder *event.Encoder
		absent  event.Absent
		want    string
	}{
		{"before Bind", unbound, good, "call Bind first"},
		{"in a release stream", bind(t, release, rows), good, "no deleted events"},
		{"a key cut short", bound, short, "values of 1 key columns of table orders_07"},
		{"a key of other columns", bind(t, options(), appRevision("0")), good, "values of 2 key columns of table orders_07"},
		{"without the time of the read", bound, timeless, "no time of its read"},
		{"a predecessor that is not an ID", bound, alien, "not a meta.id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			buf, _, err := test.encoder.AppendAbsent([]byte("x"), test.absent)
			if err == nil || !strings.Contains(err.Error(), test.want) || string(buf) != "x" {
				t.Errorf("got %q, %v", buf, err)
			}
		})
	}
}

func TestAnAbsentKeyThatIsBadIsNullOrStops(t *testing.T) {
	rows := newTable(cell{"id", source.Int, 0, "7"}, cell{"k", source.Text, 0, "a\xff"}).key("k")
	key := encode(t, options(), rows, rows.row(7)).Key
	a := event.Absent{Key: key, ID: 7, Read: readAt}
	_, ev, err := bind(t, options(), rows).AppendAbsent(nil, a)
	if err != nil || ev.BadValues != 1 || string(parse(t, ev.Body).Data["k"]) != "null" {
		t.Errorf("got %s with %d bad values, %v", ev.Body, ev.BadValues, err)
	}
	stop := options()
	stop.BadValue = event.StopOnBad
	buf, _, err := bind(t, stop, rows).AppendAbsent([]byte("x"), a)
	var bad *event.BadValueError
	if !errors.As(err, &bad) || bad.Row != 7 || bad.Column != "k" || string(buf) != "x" {
		t.Errorf("got %q, %v", buf, err)
	}
}

// A deleted event has no other columns, so that those added or dropped since the row was last seen
// change nothing.
func TestAnAbsentEntityDoesNotKnowTheOtherColumns(t *testing.T) {
	before := lifeRow("A", "0")
	after := newTable(
		cell{"id", source.Int, 0, "1"}, cell{"new", source.Int, 0, "5"}, cell{"modified", source.Timestamp, 0, "2026-01-01 00:00:00"},
		cell{"k", source.Text, 0, "other"}, cell{"deleted", source.Int, 0, "0"},
	).key("k").modified("modified").deleted("deleted")
	key := encode(t, options(), before, before.row(1)).Key
	a := event.Absent{Key: key, ID: 1, Read: readAt, Predecessor: earlier}
	var bodies [][]byte
	for _, rows := range []*table{before, after, before} {
		_, ev, err := bind(t, options(), rows).AppendAbsent(nil, a)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, ev.Body)
	}
	if !bytes.Equal(bodies[0], bodies[1]) || !bytes.Equal(bodies[0], bodies[2]) {
		t.Errorf("got\n%s", bytes.Join(bodies, []byte("\n")))
	}
}

// One encoder serves rows, absences and digests in any order: none of them leaves anything behind
// for the next.
func TestAnEncoderServesRowsAndAbsencesInTurn(t *testing.T) {
	rows := appRevision("0")
	encoder := bind(t, appRevisionOptions(), rows)
	row := rows.row(4711)
	want := encode(t, appRevisionOptions(), rows, row)
	var buf []byte
	var gone []event.Event
	for range 50 {
		seen, err := encoder.Digest(row.Row)
		if err != nil {
			t.Fatal(err)
		}
		var ev event.Event
		if buf, ev, err = encoder.Append(buf, row); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ev.Body, want.Body) || seen.Sum != ev.Digest {
			t.Fatalf("got %s, want %s", ev.Body, want.Body)
		}
		if buf, ev, err = encoder.AppendAbsent(buf, event.Absent{Key: ev.Key, ID: 4711, Read: readAt}); err != nil {
			t.Fatal(err)
		}
		gone = append(gone, ev)
	}
	for _, ev := range gone {
		if !bytes.Equal(ev.Body, gone[0].Body) || string(ev.Key) != string(want.Key) {
			t.Fatalf("an absence changed: %s", ev.Body)
		}
	}
}
