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

func TestKeyValuesRefusesWhatIsNotAKey(t *testing.T) {
	text, binary, bits := source.Text, source.Binary, source.Bit
	for name, test := range map[string]struct {
		kinds []source.Kind
		key   string
	}{
		"one value too few":              {[]source.Kind{text, text}, "a"},
		"one value too many":             {[]source.Kind{text}, "a+b"},
		"an escape cut short":            {[]source.Kind{text}, "a%2"},
		"an escape in lower case":        {[]source.Kind{text}, "%2b"},
		"an escape of what needs none":   {[]source.Kind{text}, "%41"},
		"what needs an escape":           {[]source.Kind{text}, "\n"},
		"NULL behind something":          {[]source.Kind{text}, "a%"},
		"base64 without its end":         {[]source.Kind{binary}, "AP8"},
		"base64 with bits left over":     {[]source.Kind{binary}, "AP9="},
		"base64 in two lines":            {[]source.Kind{binary}, "AP8=%0A"},
		"what is not base64":             {[]source.Kind{binary}, "a b"},
		"a number with a zero too many":  {[]source.Kind{bits}, "01"},
		"a number with a sign":           {[]source.Kind{bits}, "-1"},
		"no number":                      {[]source.Kind{bits}, ""},
		"a word for a number":            {[]source.Kind{bits}, "one"},
		"a fault behind a sound value":   {[]source.Kind{text, bits}, "a+x"},
		"a fault before a sound value":   {[]source.Kind{bits, text}, "x+a"},
		"a short number with zero bytes": {[]source.Kind{bits}, "%00%00%00%00%00%00%00%00a"},
	} {
		t.Run(name, func(t *testing.T) {
			dst := make([][]byte, 1, 8)
			got, err := keyEncoder(t, test.kinds...).KeyValues([]byte(test.key), dst)
			if err == nil || len(got) != 1 {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	t.Run("a key before Bind", func(t *testing.T) {
		unbound, err := event.NewEncoder(options())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unbound.KeyValues([]byte("a"), nil); err == nil {
			t.Error("it is taken")
		}
	})
}

// FuzzKeyValues proves that KeyValues takes exactly the bytes that Append writes: whatever it takes
// is written again byte for byte, so that no two keys hold the same values.
func FuzzKeyValues(f *testing.F) {
	f.Add([]byte{byte(source.Text)}, []byte("a%2Bb"))
	f.Add([]byte{byte(source.Text), byte(source.Int)}, []byte("%+1"))
	f.Add([]byte{byte(source.Binary), byte(source.Bit), byte(source.Text)}, []byte("%2BP8=+258+"))
	f.Add([]byte{byte(source.Bit)}, []byte("0"))
	f.Add([]byte{byte(source.Bit)}, []byte("18446744073709551616"))
	f.Add([]byte{byte(source.Bit)}, []byte(strings.Repeat("%FF", 9)))
	f.Add([]byte{byte(source.Binary)}, []byte("AP9="))
	f.Fuzz(func(t *testing.T, kinds, key []byte) {
		var of []source.Kind
		for _, k := range kinds[:min(4, len(kinds))] {
			of = append(of, 1+source.Kind(k-1)%source.Timestamp)
		}
		if len(of) == 0 {
			return
		}
		encoder := keyEncoder(t, of...)
		values, err := encoder.KeyValues(key, nil)
		_, gone, absentErr := encoder.AppendAbsent(nil, event.Absent{Key: key, Read: readAt})
		if (err == nil) != (absentErr == nil) {
			t.Fatalf("KeyValues says %v, AppendAbsent %v", err, absentErr)
		}
		if err != nil {
			return
		}
		row := source.Row{Values: append([][]byte{[]byte("0")}, values...)}
		seen, err := encoder.Digest(row)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(seen.Key, key) || !bytes.Equal(gone.Key, key) {
			t.Errorf("%q came back as %q and %q", key, seen.Key, gone.Key)
		}
	})
}
