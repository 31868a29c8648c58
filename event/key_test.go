package event_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
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

// FuzzKeyValues proves that KeyValues takes exactly the bytes that Append writes: whatever it takes
// is written again byte for byte, so that no two keys hold the same values. They do not grow into
// one another.
func FuzzKeyValues(f *testing.F) {
	text, number, binary, bits := byte(source.Text), byte(source.Int), byte(source.Binary), byte(source.Bit)
	for _, seed := range []struct {
		kinds []byte
		key   string
	}{
		{[]byte{text}, "a%2Bb"}, {[]byte{text, number}, "%+1"}, {[]byte{binary, bits, text}, "%2BP8=+258+"}, {[]byte{bits}, "0"},
		{[]byte{bits}, "18446744073709551616"}, {[]byte{bits}, strings.Repeat("%FF", 9)},
		{[]byte{binary, text, text, text}, strings.Repeat("AP8A", 5000) + "++%+te%2Bxt"},
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
		if (len(values) == 1) != (absentErr != nil) {
			t.Fatalf("KeyValues says %v with %q, AppendAbsent %v", err, values, absentErr)
		}
		asked, unbound := event.KeysOf(encoder, [][]byte{key})
		if unbound != nil || len(asked[0]) != len(of) || err != nil && !slices.ContainsFunc(asked[0], func(v []byte) bool { return v == nil }) {
			t.Fatalf("KeysOf says %q, %v", asked, unbound)
		}
		if absentErr == nil && !bytes.Equal(gone.Key, key) {
			t.Errorf("%q is gone as %q", key, gone.Key)
		}
		if err != nil {
			return
		}
		seen := must.Get(encoder.Digest(source.Row{Values: append([][]byte{[]byte("0")}, values[1:]...)}))(t)
		was := bytes.Clone(key)
		for _, v := range values {
			_ = append(v, "overwritten"...)
		}
		if !bytes.Equal(key, was) {
			t.Errorf("the key %q has become %q", was, key)
		}
		if !utf8.Valid(key) || bytes.ContainsFunc(key, unicode.IsControl) || !bytes.Equal(seen.Key, key) {
			t.Errorf("%q came back as %q", key, seen.Key)
		}
	})
}

func TestTheTextOfAKey(t *testing.T) {
	rows := func(a, b any) *table {
		return newTable(cell{"id", source.Int, 0, "1"}, cell{"a", source.Text, 0, a}, cell{"b", source.Text, 0, b}).key("a", "b")
	}
	for _, test := range []struct {
		a, b any
		want string
	}{
		{"app", "cluster", "app+cluster"},
		{"p+q", "r", "p%2Bq+r"},
		{"p", "q+r", "p+q%2Br"},
		{"100%", "%2B", "100%25+%252B"},
		{"", "", "+"},
		{nil, "", "%+"},
		{"", nil, "+%"},
		{"%", "a b/c:d@é中🚀", "%25+a b/c:d@é中🚀"},
		{"\x00\t\n\x7f", "\u0085\u200b\u2028\u202e\ufeff", "%00%09%0A%7F+%C2%85%E2%80%8B%E2%80%A8%E2%80%AE%EF%BB%BF"},
		{"a\xff\xfe", "\xe4\xb8", "a%FF%FE+%E4%B8"},
		{"\ufffd", "\uffff", "\ufffd+%EF%BF%BF"},
	} {
		made := rows(test.a, test.b)
		if got := string(encode(t, options(), made, made.row(1)).Key); got != test.want {
			t.Errorf("(%q, %q) has the key %q, want %q", test.a, test.b, got, test.want)
		}
	}
	t.Run("byte strings are base64 and bits a number, NULL is told from nothing", func(t *testing.T) {
		rows := newTable(
			cell{"id", source.Int, 0, "1"}, cell{"raw", source.Binary, 0, "\xfb\xef\xbe"}, cell{"none", source.Binary, 0, ""},
			cell{"flags", source.Bit, 0, "\x00\x01\x02"}, cell{"no", source.Bit, 0, nil},
		).key("raw", "none", "flags", "no")
		ev := encode(t, options(), rows, rows.row(1))
		if want := "%2B%2B%2B%2B++258+%"; string(ev.Key) != want {
			t.Errorf("key %q, want %q", ev.Key, want)
		}
		values, err := bind(t, options(), rows).KeyValues(ev.Key, [][]byte{[]byte("before")})
		if want := [][]byte{[]byte("before"), []byte("\xfb\xef\xbe"), {}, {1, 2}, nil}; err != nil || !reflect.DeepEqual(values, want) {
			t.Errorf("values %q, want %q: %v", values, want, err)
		}
	})
}
