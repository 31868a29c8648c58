package event_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

var otherFormats = []event.Format{event.FormatCloudEvents, event.FormatRow}

// TestGoldenFormats fixes the bytes of a golden event in each other format, and that it stays the
// same event.
func TestGoldenFormats(t *testing.T) {
	for _, g := range goldens() {
		for _, format := range otherFormats {
			t.Run(g.name+" as "+string(format), func(t *testing.T) {
				want := g.event(t)
				g := g
				g.options.Format = format
				got := g.event(t)
				body := append(bytes.Clone(got.Body), '\n')
				if got.Body, want.Body = nil, nil; !equalEvents(&got, &want) {
					t.Errorf("the event is %+v, as an Eiffel document %+v", got, want)
				}
				file := filepath.Join("testdata", string(format), g.name+".golden.json")
				if *update {
					must.OK(t, os.WriteFile(file, body, 0o644))
				}
				fixed := must.Get(os.ReadFile(file))(t)
				if !bytes.Equal(body, fixed) {
					t.Errorf("got  %swant %s", body, fixed)
				}
			})
		}
	}
}

func equalEvents(a, b *event.Event) bool {
	return a.ID == b.ID && a.UUID == b.UUID && a.Type == b.Type && a.Version == b.Version && a.Schema == b.Schema && a.Op == b.Op && a.Reason == b.Reason &&
		bytes.Equal(a.Key, b.Key) && a.Time.Equal(b.Time) && a.FromClock == b.FromClock && a.BadValues == b.BadValues && a.Digest == b.Digest
}

func TestAnEmptyKeyIsNoSubject(t *testing.T) {
	o := options()
	o.Format = event.FormatCloudEvents
	rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"name", source.Text, 0, ""}).key("name")
	if ev := encode(t, o, rows, rows.row(1)); bytes.Contains(ev.Body, []byte("subject")) {
		t.Errorf("%s", ev.Body)
	}
}

func TestValuesKeepAllTheyHold(t *testing.T) {
	shanghai := time.FixedZone("+08", 8*3600)
	tests := []struct {
		name      string
		kind      source.Kind
		precision int
		value     any
		zone      *time.Location
		want      string
	}{
		{"empty text", source.Text, 0, "", nil, `""`},
		{"line separators", source.Text, 0, "a\u2028\u2029\u202ab", nil, "\"a\\u2028\\u2029\u202ab\""},
		{"half a character", source.Text, 0, "a\xf0\x9f\x8e", nil, `null`},
		{"an integer longer than 64 bits", source.Int, 0, "-123456789012345678901234567890", nil, `-123456789012345678901234567890`},
		{"a negative zero", source.Int, 0, "-000", nil, `0`},
		{"an integer that is none", source.Int, 0, "1.0", nil, `null`},
		{"a float", source.Float, 0, "-1.7976931348623157e+308", nil, `-1.7976931348623157e+308`},
		{"a byte string", source.Binary, 0, "\xfb\xff", nil, `"+/8="`},
		{"64 bits", source.Bit, 0, "\xff\xff\xff\xff\xff\xff\xff\xff", nil, `18446744073709551615`},
		{"a document with what HTML would escape", source.JSON, 0, "\"<\u2028>\"", nil, "\"<\u2028>\""},
		{"a document with invalid UTF-8", source.JSON, 0, "\"\xff\"", nil, `null`},
		{"a document with something behind it", source.JSON, 0, "{} {}", nil, `null`},
		{"a document nested as deep as may be", source.JSON, 0, nested(9998), nil, nested(9998)},
		{"a document nested too deep", source.JSON, 0, nested(9999), nil, `null`},
		{"brackets that are text", source.JSON, 0, `"` + strings.Repeat(`[\"`, 20000) + `"`, nil, `"` + strings.Repeat(`[\"`, 20000) + `"`},
		{"a day", source.Date, 0, "2024-02-29", shanghai, `"2024-02-29"`},
		{"a wall clock of another zone", source.DateTime, 3, "2026-01-01 07:59:59.999", shanghai, `"2025-12-31T23:59:59.999Z"`},
		{"a timestamp whatever the zone", source.Timestamp, 6, "2026-01-02 03:04:05.000100", shanghai, `"2026-01-02T03:04:05.000100Z"`},
		{"a fraction shorter than the column's", source.DateTime, 6, "2026-01-02 03:04:05", nil, `"2026-01-02T03:04:05.000000Z"`},
		{"a fraction longer than the column's", source.DateTime, 1, "2026-01-02 03:04:05.19", nil, `"2026-01-02T03:04:05.1Z"`},
		{"the year 0 left for the one before", source.DateTime, 0, "0000-01-01 00:00:00", shanghai, `null`},
		{"the last second left for the year 10000", source.DateTime, 0, "9999-12-31 23:00:00", time.FixedZone("-08", -8*3600), `null`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := options()
			o.Zone = test.zone
			rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"v", test.kind, test.precision, test.value})
			ev := encode(t, o, rows, rows.row(1))
			_, got, _ := strings.Cut(string(ev.Body), `"data":{"id":1,"v":`)
			got, _, _ = strings.Cut(got, `,"row":{"source"`)
			if got != test.want {
				t.Errorf("got %.100s, want %.100s", got, test.want)
			}
			bad := 0
			if test.want == "null" && test.value != nil {
				bad = 1
			}
			if ev.BadValues != bad {
				t.Errorf("%d bad values, want %d", ev.BadValues, bad)
			}
			parse(t, ev.Body)
		})
	}
}

func TestTextIsEscapedWhereverTheByteStands(t *testing.T) {
	rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"v", source.Text, 0, ""})
	o := options()
	o.Stem, o.Domain, o.Zone = "Orders", "bridge", time.UTC
	for _, length := range []int{1, 8, 9} {
		for at := range length {
			for b := range 0x80 {
				text := []byte(strings.Repeat("a", length))
				text[at] = byte(b)
				rows.values[1] = text
				compare(t, o, &rows.columns, []string{"id", "v"}, rows.row(1))
			}
		}
	}
}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestMetaNamesTheInstallationAndNoHost(t *testing.T) {
	o := options()
	o.Domain, o.Stream, o.Stem = `dc-1/"ö" x`, "a+b%c", "X"
	rows := newTable(cell{"id", source.Int, 0, "1"})
	body := encode(t, o, rows, rows.row(1)).Body
	if want := `"source":{"domainId":"dc-1/\"ö\" x"}},`; !strings.Contains(string(body), want) {
		t.Errorf("%s lacks %s", body, want)
	}
	if got, want := string(event.AppendURI(nil, o.Domain, o.Stream)), "bridge://dc-1%2F%22%C3%B6%22%20x/a%2Bb%25c"; got != want {
		t.Errorf("the stream is %s, want %s", got, want)
	}
}
