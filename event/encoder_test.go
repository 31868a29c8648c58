package event_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func TestTheDeletedColumnDecidesTheOperation(t *testing.T) {
	type values = []any
	tests := []struct {
		name          string
		kind          source.Kind
		live, deleted values
	}{
		{"integer", source.Int, values{nil, "0", "-0", "00", "", "no"}, values{"1", "-1", "10", "1772323200", "Y", "true"}},
		{"decimal", source.Decimal, values{nil, "0", "0.00", "-0.0"}, values{"0.01", "1", "10.0"}},
		{"float", source.Float, values{nil, "0", "-0", "0e5", "0.0E+9"}, values{"1e-9", "0.5"}},
		{"bit", source.Bit, values{nil, "\x00", "\x00\x00"}, values{"\x01", "\x01\x00"}},
		{"text", source.Text, values{nil, "", "0", "f", "F", "false", "FALSE", "n", "N", "no", "No"}, values{"1", "y", "t", "true", "yes", "deleted", "00", " ", "none", "x"}},
		{"byte string", source.Binary, values{nil, "", "\x00", "\x00\x00", "0", "N"}, values{"\x01", "\x00\x01", "1", "Y"}},
		{"JSON", source.JSON, values{nil, "null", "false", "0"}, values{"true", "1", "{}"}},
		{"day", source.Date, values{nil, "0000-00-00"}, values{"2026-01-02", "2026-00-00"}},
		{"wall clock", source.DateTime, values{nil, "0000-00-00 00:00:00", "0000-00-00 00:00:00.000"}, values{"2026-01-02 03:04:05", "1970-01-01 00:00:00"}},
		{"timestamp", source.Timestamp, values{nil, "0000-00-00 00:00:00"}, values{"1970-01-01 00:00:01"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for want, list := range map[event.Op]values{event.Added: test.live, event.Deleted: test.deleted} {
				for _, value := range list {
					rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"deleted", test.kind, 0, value}).deleted("deleted")
					if ev := encode(t, options(), rows, rows.row(1)); ev.Op != want {
						t.Errorf("%q is %s, want %s", value, ev.Op, want)
					}
				}
			}
		})
	}
}

func TestTheTimeIsThatOfTheRow(t *testing.T) {
	modified, created, read := int64(1767323045500), int64(1767225600000), readAt.UnixMilli()
	tests := []struct {
		name              string
		created, modified any
		want              int64
		fromClock         bool
	}{
		{"modified", "2026-01-01 00:00:00", "2026-01-02 03:04:05.500900", modified, false},
		{"created where modified is a zero date", "2026-01-01 00:00:00", "0000-00-00 00:00:00", created, false},
		{"the read where there is neither", nil, nil, read, true},
		{"the read where both are zero dates", "0000-00-00 00:00:00", "0000-00-00 00:00:00", read, true},
		{"a time before the epoch", "1969-12-31 23:59:59", nil, -1000, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rows := newTable(
				cell{"id", source.Int, 0, "1"}, cell{"created", source.Timestamp, 0, test.created}, cell{"modified", source.DateTime, 6, test.modified},
			).created("created").modified("modified")
			ev := encode(t, options(), rows, rows.row(1))
			if got := parse(t, ev.Body).Meta.Time; got != test.want || ev.FromClock != test.fromClock || ev.Time.IsZero() != test.fromClock {
				t.Errorf("meta.time %d, Time %s, FromClock %t; want %d, %t", got, ev.Time, ev.FromClock, test.want, test.fromClock)
			}
		})
	}
}

func TestAnEncoderRefusesWhatItCannotEncode(t *testing.T) {
	rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"k", source.Text, 0, "x"}).key("k")
	bound := bind(t, options(), rows)
	unbound := must.Get(event.NewEncoder(options()))(t)
	log := options()
	log.Kind = event.Release
	release := bind(t, log, rows)
	type call func(buf []byte) ([]byte, event.Event, error)
	row := func(e *event.Encoder, change func(*event.Row)) call {
		return func(buf []byte) ([]byte, event.Event, error) {
			r := rows.row(1)
			change(&r)
			return e.Append(buf, r)
		}
	}
	absent := func(e *event.Encoder, change func(*event.Absent)) call {
		return func(buf []byte) ([]byte, event.Event, error) {
			a := event.Absent{Key: []byte("x"), ID: 7, Read: readAt, Predecessor: earlier}
			change(&a)
			return e.AppendAbsent(buf, a)
		}
	}
	digest := func(e *event.Encoder, r source.Row) call {
		return func(buf []byte) ([]byte, event.Event, error) {
			_, err := e.Digest(r)
			return buf, event.Event{}, err
		}
	}
	for name, c := range map[string]struct {
		call call
		want string
	}{
		"a row of another shape":             {row(bound, func(r *event.Row) { r.Values = nil }), "row 1 of table orders_07 has 0 values for 2 columns"},
		"a row without any time":             {row(bound, func(r *event.Row) { r.Read = time.Time{} }), "no time of its read"},
		"a live row that is called deleted":  {row(bound, func(r *event.Row) { r.Op = event.Deleted }), "its operation is not for the caller to say"},
		"an operation that there is not":     {row(bound, func(r *event.Row) { r.Op = "lost" }), "its operation is not for the caller to say"},
		"a predecessor that is not an ID":    {row(bound, func(r *event.Row) { r.Predecessor = earlier + `"` }), "not a meta.id"},
		"a digest before Bind":               {digest(unbound, rows.row(1).Row), "call Bind first"},
		"a digest of another shape":          {digest(bound, source.Row{ID: 1}), "0 values for 2 columns"},
		"an absence in a release stream":     {absent(release, func(*event.Absent) {}), "no deleted events"},
		"an absent key of other columns":     {absent(bound, func(a *event.Absent) { a.Key = []byte("x+y") }), "values of 1 key columns of table orders_07"},
		"an absence without a time":          {absent(bound, func(a *event.Absent) { a.Read = time.Time{} }), "no time of its read"},
		"an absence after what is not an ID": {absent(bound, func(a *event.Absent) { a.Predecessor = strings.ToUpper(earlier) }), "not a meta.id"},
	} {
		t.Run(name, func(t *testing.T) {
			if buf, _, err := c.call([]byte("x")); err == nil || !strings.Contains(err.Error(), c.want) || string(buf) != "x" {
				t.Errorf("got %q, %v", buf, err)
			}
		})
	}
}

func TestStopOnBadRefusesTheRow(t *testing.T) {
	o := options()
	o.BadValue = event.StopOnBad
	rows := everyKindBad()
	faults := map[string]string{
		"int_min": "is not an integer", "ratio": "is not a number", "note": "is not valid UTF-8", "amount": "is not valid UTF-8",
		"flags": "has more than 64 bits", "payload": "is not valid JSON", "day": "is a zero or impossible date", "at": "is a zero or impossible date",
	}
	for column, fault := range faults {
		t.Run(column, func(t *testing.T) {
			i := rows.index(column)
			one := newTable(cell{"id", source.Int, 0, "7"}, cell{column, rows.columns.List[i].Kind, 0, rows.values[i]})
			buf, _, err := bind(t, o, one).Append([]byte("x"), one.row(7))
			if string(buf) != "x" {
				t.Errorf("the buffer came back as %q", buf)
			}
			var bad *event.BadValueError
			if !errors.As(err, &bad) || *bad != (event.BadValueError{Table: "orders_07", Row: 7, Column: column, Fault: fault}) {
				t.Fatalf("got %v", err)
			}
			for _, want := range []string{"orders_07", "row 7", column, fault, "EXCLUDE=" + column + " ", "ON_BAD_VALUE=null"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in %v", want, err)
				}
			}
		})
	}
	t.Run("of an absent key", func(t *testing.T) {
		rows := newTable(cell{"id", source.Int, 0, "7"}, cell{"k", source.Text, 0, nil}).key("k")
		buf, _, err := bind(t, o, rows).AppendAbsent([]byte("x"), event.Absent{Key: []byte("a%FF"), ID: 7, Read: readAt})
		var bad *event.BadValueError
		if !errors.As(err, &bad) || bad.Row != 7 || bad.Column != "k" || string(buf) != "x" {
			t.Errorf("got %q, %v", buf, err)
		}
	})
}

// TestBindFollowsTheShape also of plans that encoders of several tables share.
func TestBindFollowsTheShape(t *testing.T) {
	before := newTable(cell{"id", source.Int, 0, "1"}, cell{"a", source.Text, 0, "x"})
	after := newTable(cell{"id", source.Int, 0, "1"}, cell{"new", source.Int, 0, "5"}, cell{"a", source.Text, 0, "x"})
	wrong := newTable(cell{"id", source.Int, 0, "1"}, cell{"ID", source.Text, 0, "x"})
	wanted := map[*table][]byte{before: encode(t, options(), before, before.row(1)).Body, after: encode(t, options(), after, after.row(1)).Body}
	var plans event.Plans
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			encoder, err := event.NewEncoder(options())
			if err != nil {
				t.Error(err)
				return
			}
			encoder.Share(&plans)
			for _, rows := range []*table{before, after, wrong, before, before} {
				if err := encoder.Bind(&rows.columns); (err != nil) != (rows == wrong) {
					t.Error(err)
				}
				_, ev, err := encoder.Append(nil, event.Row{Row: source.Row{ID: 1, Values: rows.values}, Read: readAt})
				if want := wanted[rows]; want != nil && (err != nil || !bytes.Equal(ev.Body, want)) {
					t.Errorf("got %s, %v", ev.Body, err)
				}
			}
		})
	}
	group.Wait()
}

func TestTheVersionOfTheOptionsIsThatOfTheEvents(t *testing.T) {
	table := stpCapability("64", "N")
	o := stpOptions()
	before := encode(t, o, table, table.row(8))
	o.Version = "2.10.0"
	after := encode(t, o, table, table.row(8))
	if got := parse(t, after.Body).Meta.Version; got != "2.10.0" || after.Version != got || before.Version != event.Version {
		t.Errorf("versions %q, %q and %q", got, after.Version, before.Version)
	}
	if after.ID != before.ID || after.Digest != before.Digest {
		t.Error("another version makes another fact")
	}
}
