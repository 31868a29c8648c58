package source_test

import (
	"regexp"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func TestNULLAndOtherKindsHaveNoTime(t *testing.T) {
	for kind, value := range map[source.Kind][]byte{
		source.Clock: []byte("03:04:05"), source.Text: []byte("2026-01-02 03:04:05"), source.Int: []byte("1767323045"),
		source.Date: nil, source.DateTime: nil, source.Timestamp: nil,
	} {
		if got, ok := (source.Column{Kind: kind}).Time(value, time.UTC); ok || !got.IsZero() {
			t.Errorf("kind %d: Time(%q) = %s, %t; want nothing", kind, value, got, ok)
		}
	}
}

func TestTimeAgreesWithTheStandardLibrary(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skipf("no time zone database: %v", err)
	}
	column := source.Column{Kind: source.DateTime, Precision: 6}
	for day := range 3 * 366 {
		for _, clock := range []string{"00:30:00.000001", "02:30:00", "03:00:00.5", "23:59:59.999999"} {
			value := time.Date(2023, 1, 1+day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) + " " + clock
			want := must.Get(time.ParseInLocation(time.DateTime, value, berlin))(t)
			if got, ok := column.Time([]byte(value), berlin); !ok || !got.Equal(want) {
				t.Fatalf("Time(%q) = %s, %t; want %s", value, got, ok, want)
			}
		}
	}
}

func TestTextRoundsDownToThePrecision(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_999_999, time.UTC)
	shanghai := time.FixedZone("+08", 8*3600)
	for _, test := range []struct {
		column source.Column
		zone   *time.Location
		want   string
	}{
		{source.Column{Kind: source.DateTime}, nil, "2026-01-02 03:04:05"},
		{source.Column{Kind: source.DateTime, Precision: 1}, nil, "2026-01-02 03:04:05.6"},
		{source.Column{Kind: source.DateTime, Precision: 3}, shanghai, "2026-01-02 11:04:05.678"},
		{source.Column{Kind: source.Timestamp, Precision: 6}, shanghai, "2026-01-02 03:04:05.678999"},
		{source.Column{Kind: source.Date}, nil, "2026-01-02"},
		{source.Column{Kind: source.Date}, time.FixedZone("-04", -4*3600), "2026-01-01"},
		{source.Column{Kind: source.Clock, Precision: 6}, nil, ""},
		{source.Column{Kind: source.Text}, nil, ""},
	} {
		if got := test.column.Text(at.In(shanghai), test.zone); got != test.want {
			t.Errorf("%+v in %v: %q, want %q", test.column, test.zone, got, test.want)
		}
	}
	column := source.Column{Kind: source.Timestamp}
	for value, zone := range map[string]int{"9999-12-31 23:59:59": -1, "0000-01-01 00:00:00": 1} {
		if at, ok := (source.Column{Kind: source.DateTime}).Time([]byte(value), time.FixedZone("", zone*3600)); ok {
			t.Errorf("%s is %s, which has no normal form", value, at)
		}
	}
	for year, want := range map[int]string{-1: "", 0: "0000-01-01 00:00:00", 9999: "9999-01-01 00:00:00", 10000: ""} {
		if got := column.Text(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), nil); got != want {
			t.Errorf("year %d: %q, want %q", year, got, want)
		}
	}
}

func TestTextIsTheInverseOfTime(t *testing.T) {
	zones := []*time.Location{nil, time.FixedZone("+05:30", 19800), time.FixedZone("-03", -10800)}
	start := time.Date(1999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	for i := range 2000 {
		at := start.Add(time.Duration(i) * 7_654_321_987 * time.Microsecond)
		for _, kind := range []source.Kind{source.Date, source.DateTime, source.Timestamp} {
			column := source.Column{Kind: kind, Precision: i % 7}
			zone := zones[i%len(zones)]
			text := column.Text(at, zone)
			back, ok := column.Time([]byte(text), zone)
			if late := at.Sub(back); !ok || late < 0 || late >= column.Resolution() || column.Text(back, zone) != text {
				t.Fatalf("%v becomes %q and that %v, %t", at, text, back, ok)
			}
		}
	}
}

// normalForms are stricter than the library, which also takes an hour of one digit, further spaces,
// and a comma before the fraction.
var normalForms = map[source.Kind]struct {
	layout string
	form   *regexp.Regexp
}{
	source.Date:      {time.DateOnly, regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)},
	source.DateTime:  {time.DateTime, regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?$`)},
	source.Timestamp: {time.DateTime, regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?$`)},
}

func FuzzColumnTime(f *testing.F) {
	for _, value := range []string{
		"2026-01-02", "2024-02-29", "2000-02-29", "0000-00-00", "2026-00-01", "2026-01-00", "2026-13-01", "2026-02-30", "2025-02-29", "1900-02-29",
		"2026-04-31", "", "2026-1-02", "2026-01-2", "2026/01/02", "2026-01-02 ", "20a6-01-02",
		"2026-01-02 03:04:05", "2026-01-02 03:04:05.6", "2026-01-02 03:04:05.123456789", "0000-01-01 00:00:00", "9999-12-31 23:59:59.999999",
		"0000-00-00 00:00:00", "2026-02-29 03:04:05.5", "2026-01-02 24:00:00", "2026-01-02 03:60:05", "2026-01-02 03:04:60", "2026-01-02T03:04:05",
		"2026-01-02 03:04:05.", "2026-01-02 03:04:05,1", "2026-01-02 03:04:05.1234567890", "2026-01-02 03:04:05.12x", "2026-01-02 03:04:05Z", "2026-01-02 3:04:05",
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for kind, normal := range normalForms {
			want, err := time.Parse(normal.layout, string(value))
			got, ok := source.Column{Kind: kind}.Time(value, nil)
			if ok != (err == nil && normal.form.Match(value)) || ok && !got.Equal(want) {
				t.Errorf("kind %d: Time(%q) = %s, %t; the library says %s, %v", kind, value, got, ok, want, err)
			}
		}
	})
}
