package event_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"bridge/event"
	"bridge/source"
)

// keyEncoder is bound to a table with this many key columns.
func keyEncoder(t testing.TB, width int) *event.Encoder {
	t.Helper()
	rows := newTable(cell{"id", source.Int, 0, "1"})
	for n := range width {
		rows.add(cell{"k" + string(rune('a'+n)), source.Binary, 0, nil})
	}
	rows.columns.Key = rows.columns.Key[:0]
	for n := range width {
		rows.columns.Key = append(rows.columns.Key, n+1)
	}
	return bind(t, options(), rows)
}

func TestKeyValuesReadsAnEntity(t *testing.T) {
	rows := newTable(
		cell{"id", source.Int, 0, "1"}, cell{"a", source.Text, 0, "text"}, cell{"b", source.Text, 0, ""}, cell{"c", source.Text, 0, nil},
		cell{"long", source.Binary, 0, strings.Repeat("\x00\xff", 5000)},
	).key("long", "b", "c", "a")
	encoder := bind(t, options(), rows)
	entity := encode(t, options(), rows, rows.row(1)).Entity
	dst := [][]byte{[]byte("before")}
	got, err := encoder.KeyValues(entity, dst)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 5 || string(got[0]) != "before" || len(got[1]) != 10_000 || got[2] == nil || len(got[2]) != 0 || got[3] != nil || string(got[4]) != "text" {
		t.Errorf("got %q", got)
	}
	t.Run("values cannot grow into one another", func(t *testing.T) {
		for _, v := range got {
			_ = append(v, "overwritten"...)
		}
		if !bytes.Equal(entity, encode(t, options(), rows, rows.row(1)).Entity) {
			t.Error("the entity changed")
		}
	})
}

func TestKeyValuesRefusesWhatIsNoEntity(t *testing.T) {
	for name, test := range map[string]struct {
		width  int
		entity string
	}{
		"nothing":                             {1, ""},
		"one value too few":                   {2, "\x02a"},
		"one value too many":                  {1, "\x02a\x00"},
		"a byte too many":                     {1, "\x02ab"},
		"a value cut short":                   {1, "\x03a"},
		"a length alone":                      {1, "\x02"},
		"a length without its end":            {1, "\x80"},
		"a length longer than it needs":       {1, "\x82\x00a"},
		"NULL in two bytes":                   {1, "\x80\x00"},
		"a length of more than 64 bits":       {1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		"the highest length":                  {1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a"},
		"a length that is negative as an int": {1, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01a"},
		"a second value without an end":       {2, "\x02a\xff\xff\xff\xff\x07"},
	} {
		t.Run(name, func(t *testing.T) {
			dst := make([][]byte, 1, 8)
			got, err := keyEncoder(t, test.width).KeyValues([]byte(test.entity), dst)
			if err == nil || len(got) != 1 {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	t.Run("an entity before Bind", func(t *testing.T) {
		unbound, err := event.NewEncoder(options())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unbound.KeyValues([]byte("\x02a"), nil); err == nil {
			t.Error("it is taken")
		}
	})
}

// FuzzKeyValues proves that KeyValues takes exactly the bytes that Append writes: whatever it takes
// is written again byte for byte, so that no two entities hold the same values.
func FuzzKeyValues(f *testing.F) {
	f.Add(uint8(0), []byte("\x02a"))
	f.Add(uint8(1), []byte("\x00\x01"))
	f.Add(uint8(2), []byte("\x03ab\x00\x05\x00\x00\x00\x00"))
	f.Add(uint8(0), []byte("\x80\x00"))
	f.Add(uint8(0), append([]byte{0x81, 0x01}, make([]byte, 128)...))
	f.Add(uint8(0), []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a"))
	f.Add(uint8(3), bytes.Repeat([]byte{math.MaxUint8}, 40))
	f.Fuzz(func(t *testing.T, width uint8, entity []byte) {
		encoder := keyEncoder(t, int(width%4)+1)
		values, err := encoder.KeyValues(entity, nil)
		_, gone, absentErr := encoder.AppendAbsent(nil, event.Absent{Entity: entity, Read: readAt})
		if (err == nil) != (absentErr == nil) {
			t.Fatalf("KeyValues says %v, AppendAbsent %v", err, absentErr)
		}
		if err != nil {
			return
		}
		record := source.Row{Values: append([][]byte{[]byte("0")}, values...)}
		seen, err := encoder.Digest(record)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(seen.Entity, entity) || !bytes.Equal(gone.Entity, entity) {
			t.Errorf("%x came back as %x and %x", entity, seen.Entity, gone.Entity)
		}
	})
}
