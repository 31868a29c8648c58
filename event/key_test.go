package event_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"bridge/event"
	"bridge/source"
)

// keyEncoder is bound to a table whose key has columns of these kinds.
func keyEncoder(t testing.TB, kinds ...source.Kind) *event.Encoder {
	t.Helper()
	rows := newTable(cell{"id", source.Int, 0, "1"})
	rows.columns.Key = rows.columns.Key[:0]
	for n, kind := range kinds {
		rows.add(cell{"k" + string(rune('a'+n)), kind, 0, nil})
		rows.columns.Key = append(rows.columns.Key, n+1)
	}
	return bind(t, options(), rows)
}

func TestKeyValuesReadsAKey(t *testing.T) {
	long := strings.Repeat("\x00\xff", 5000)
	rows := newTable(
		cell{"id", source.Int, 0, "1"}, cell{"a", source.Text, 0, "te+xt"}, cell{"b", source.Text, 0, ""}, cell{"c", source.Text, 0, nil},
		cell{"long", source.Binary, 0, long}, cell{"none", source.Binary, 0, ""}, cell{"flags", source.Bit, 0, "\x00\x01\x02"},
		cell{"zero", source.Bit, 0, "\x00\x00"},
	).key("long", "b", "c", "a", "none", "flags", "zero")
	key := encode(t, options(), rows, rows.row(1)).Key
	was := bytes.Clone(key)
	got, err := bind(t, options(), rows).KeyValues(key, [][]byte{[]byte("before")})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{[]byte("before"), []byte(long), {}, nil, []byte("te+xt"), {}, []byte("\x01\x02"), {0}}
	if !slices.EqualFunc(got, want, func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }) {
		t.Errorf("got %.80q", got)
	}
	t.Run("values cannot grow into one another", func(t *testing.T) {
		for _, v := range got {
			_ = append(v, "overwritten"...)
		}
		if !bytes.Equal(key, was) {
			t.Error("the key changed")
		}
	})
}

func TestTheEmptyKeyIsThatOfAnEmptyValue(t *testing.T) {
	got, err := keyEncoder(t, source.Text).KeyValues(nil, nil)
	if err != nil || len(got) != 1 || got[0] == nil || len(got[0]) != 0 {
		t.Errorf("got %q, %v", got, err)
	}
}

// FuzzKeyValues proves that KeyValues takes exactly the bytes that Append writes: whatever it takes
// is written again byte for byte, so that no two keys hold the same values.
func FuzzKeyValues(f *testing.F) {
	text, number, binary, bits := byte(source.Text), byte(source.Int), byte(source.Binary), byte(source.Bit)
	for _, seed := range []struct {
		kinds []byte
		key   string
	}{
		{[]byte{text}, "a%2Bb"}, {[]byte{text, number}, "%+1"}, {[]byte{binary, bits, text}, "%2BP8=+258+"}, {[]byte{bits}, "0"},
		{[]byte{bits}, "18446744073709551616"}, {[]byte{bits}, strings.Repeat("%FF", 9)},
		// None of these is a key.
		{[]byte{text, text}, "a"}, {[]byte{text}, "a+b"}, {[]byte{text}, "a%2"}, {[]byte{text}, "%2b"}, {[]byte{text}, "%41"}, {[]byte{text}, "\n"},
		{[]byte{text}, "a%"}, {[]byte{binary}, "AP8"}, {[]byte{binary}, "AP9="}, {[]byte{binary}, "AP8=%0A"}, {[]byte{binary}, "a b"},
		{[]byte{bits}, "01"}, {[]byte{bits}, "-1"}, {[]byte{bits}, ""}, {[]byte{bits}, "%00%00%00%00%00%00%00%00a"},
		{[]byte{text, bits}, "a+x"}, {[]byte{bits, text}, "x+a"},
	} {
		f.Add(seed.kinds, []byte(seed.key))
	}
	f.Fuzz(func(t *testing.T, kinds, key []byte) {
		var of []source.Kind
		for _, k := range kinds[:min(4, len(kinds))] {
			of = append(of, 1+source.Kind(k-1)%source.Timestamp)
		}
		if len(of) == 0 {
			return
		}
		encoder := keyEncoder(t, of...)
		values, err := encoder.KeyValues(key, make([][]byte, 1, 8))
		_, gone, absentErr := encoder.AppendAbsent(nil, event.Absent{Key: key, Read: readAt})
		if (err == nil) != (absentErr == nil) {
			t.Fatalf("KeyValues says %v, AppendAbsent %v", err, absentErr)
		}
		if err != nil {
			if len(values) != 1 {
				t.Fatalf("with the error %v came %q", err, values)
			}
			return
		}
		row := source.Row{Values: append([][]byte{[]byte("0")}, values[1:]...)}
		seen, err := encoder.Digest(row)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(seen.Key, key) || !bytes.Equal(gone.Key, key) {
			t.Errorf("%q came back as %q and %q", key, seen.Key, gone.Key)
		}
	})
}
