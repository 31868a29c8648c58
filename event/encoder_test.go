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

func TestTheDeletedColumnDecidesTheOperation(t *testing.T) {
	type values = []any
	tests := []struct {
		name          string
		kind          source.Kind
		live, deleted values
	}{
		{"integer", source.Int, values{nil, "0", "-0", "00"}, values{"1", "-1", "10", "1772323200"}},
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

func TestAReleaseIsPublishedWhateverDeletedSays(t *testing.T) {
	o := options()
	o.Kind = event.Release
	rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"deleted", source.Int, 0, "1"}).deleted("deleted")
	if ev := encode(t, o, rows, rows.row(1)); ev.Op != event.Published || ev.Type != "OrdersPublishedEvent" {
		t.Errorf("got %s %s", ev.Op, ev.Type)
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
		{"created where modified is NULL", "2026-01-01 00:00:00", nil, created, false},
		{"created where modified is a zero date", "2026-01-01 00:00:00", "0000-00-00 00:00:00", created, false},
		{"the read where there is neither", nil, nil, read, true},
		{"the read where both are zero dates", "0000-00-00 00:00:00", "0000-00-00 00:00:00", read, true},
		{"the read where both say never", "0001-01-01 00:00:00", "0001-01-01 00:00:00", read, true},
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

func TestAppendRefusesWhatItCannotEncode(t *testing.T) {
	rows := newTable(cell{"id", source.Int, 0, "1"})
	bound := bind(t, options(), rows)
	unbound, err := event.NewEncoder(options())
	if err != nil {
		t.Fatal(err)
	}
	log := options()
	log.Kind = event.Release
	release := bind(t, log, rows)
	good, short, timeless, alien := rows.row(1), rows.row(1), rows.row(1), rows.row(1)
	dead, modified, unknown := rows.row(1), rows.row(1), rows.row(1)
	dead.Op, modified.Op, unknown.Op = event.Deleted, event.Modified, "lost"
	short.Values = nil
	timeless.Read = time.Time{}
	alien.Predecessor = `6ba7b810-9dad-51d1-80b4-00c04fd430c8"`
	for name, call := range map[string]func() ([]byte, event.Event, error){
		"a row before Bind":                          func() ([]byte, event.Event, error) { return unbound.Append([]byte("x"), good) },
		"a row of another shape":                     func() ([]byte, event.Event, error) { return bound.Append([]byte("x"), short) },
		"a row without any time":                     func() ([]byte, event.Event, error) { return bound.Append([]byte("x"), timeless) },
		"a live row that is called deleted":          func() ([]byte, event.Event, error) { return bound.Append([]byte("x"), dead) },
		"a fact that is called modified":             func() ([]byte, event.Event, error) { return release.Append([]byte("x"), modified) },
		"an operation that there is not":             func() ([]byte, event.Event, error) { return bound.Append([]byte("x"), unknown) },
		"a row with a predecessor that is not an ID": func() ([]byte, event.Event, error) { return bound.Append([]byte("x"), alien) },
	} {
		t.Run(name, func(t *testing.T) {
			if buf, _, err := call(); err == nil || string(buf) != "x" {
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
			for _, want := range []string{"orders_07", "row 7", column, fault, "ON_BAD_VALUE=null"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in %v", want, err)
				}
			}
		})
	}
}

func TestABadKeyIsNullInTheEventAndExactInTheID(t *testing.T) {
	first := newTable(cell{"id", source.Int, 0, "1"}, cell{"k", source.Text, 0, "a\xff"}).key("k")
	second := newTable(cell{"id", source.Int, 0, "1"}, cell{"k", source.Text, 0, "a\xfe"}).key("k")
	a, b := encode(t, options(), first, first.row(1)), encode(t, options(), second, second.row(1))
	if a.ID == b.ID || string(a.Key) != "a%FF" || string(b.Key) != "a%FE" || a.BadValues != 1 {
		t.Errorf("ids %s and %s, key %q, %d bad values", a.ID, b.ID, a.Key, a.BadValues)
	}
	if got := string(parse(t, a.Body).Data["k"]); got != "null" {
		t.Errorf("the member is %s", got)
	}
}

func TestTheKeyIsReadable(t *testing.T) {
	rows := newTable(
		cell{"id", source.Int, 0, "1"}, cell{"app", source.Text, 0, "app+1"}, cell{"digest", source.Binary, 0, "\x00\xff"},
		cell{"flags", source.Bit, 0, "\x01\x02"}, cell{"empty", source.Text, 0, nil}, cell{"n", source.Int, 0, "-5"},
	).key("n", "app", "digest", "flags", "empty")
	if got := string(encode(t, options(), rows, rows.row(1)).Key); got != "-5+app%2B1+AP8=+258+%" {
		t.Errorf("key is %q", got)
	}
}

func TestEventsOfOneBufferStayAsTheyWere(t *testing.T) {
	rows := appRevision("0")
	encoder := bind(t, appRevisionOptions(), rows)
	var buf []byte
	var events []event.Event
	for id := uint64(1); id <= 100; id++ {
		var ev event.Event
		var err error
		if buf, ev, err = encoder.Append(buf, rows.row(id)); err != nil {
			t.Fatal(err)
		}
		events = append(events, ev)
	}
	for i, ev := range events {
		want := encode(t, appRevisionOptions(), rows, rows.row(uint64(i+1)))
		if ev.ID != want.ID || !bytes.Equal(ev.Body, want.Body) || !bytes.Equal(ev.Key, want.Key) {
			t.Fatalf("event %d changed: %s", i, ev.Body)
		}
	}
}

func TestBindFollowsTheShape(t *testing.T) {
	before := newTable(cell{"id", source.Int, 0, "1"}, cell{"a", source.Text, 0, "x"})
	after := newTable(cell{"id", source.Int, 0, "1"}, cell{"new", source.Int, 0, "5"}, cell{"a", source.Text, 0, "x"})
	encoder, err := event.NewEncoder(options())
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []*table{before, after, before, before} {
		if err := encoder.Bind(&rows.columns); err != nil {
			t.Fatal(err)
		}
		_, ev, err := encoder.Append(nil, rows.row(1))
		if err != nil {
			t.Fatal(err)
		}
		if want := encode(t, options(), rows, rows.row(1)); !bytes.Equal(ev.Body, want.Body) {
			t.Errorf("got %s, want %s", ev.Body, want.Body)
		}
	}
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
