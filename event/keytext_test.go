package event_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"bridge/event"
	"bridge/source"
)

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
			cell{"flags", source.Bit, 0, "\x01\x02"}, cell{"no", source.Bit, 0, nil},
		).key("raw", "none", "flags", "no")
		ev := encode(t, options(), rows, rows.row(1))
		if want := "%2B%2B%2B%2B++258+%"; string(ev.Key) != want {
			t.Errorf("key %q, want %q", ev.Key, want)
		}
	})
}

// FuzzKeyText: values come back from their key, a key that is read is written the same, and it is
// text.
func FuzzKeyText(f *testing.F) {
	f.Add([]byte("p+q"), []byte("r"), false)
	f.Add([]byte("%"), []byte("\x00\xff\u2028"), false)
	f.Add([]byte("%2B"), []byte(nil), true)
	f.Add([]byte("%2b"), []byte("%F"), true)
	f.Fuzz(func(t *testing.T, a, b []byte, null bool) {
		values := [][]byte{append([]byte{}, a...), append([]byte{}, b...)}
		if null {
			values[1] = nil
		}
		text := event.AppendKeyText(append(event.AppendKeyText(nil, values[0]), '+'), values[1])
		if !utf8.Valid(text) || strings.ContainsFunc(string(text), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Fatalf("%q makes %q", values, text)
		}
		got, err := event.ParseKey(text)
		if err != nil || !slices.EqualFunc(got, values, func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }) {
			t.Fatalf("%q makes %q, which reads back as %q: %v", values, text, got, err)
		}
		if parts, err := event.ParseKey(a); err == nil {
			var again []byte
			for i, part := range parts {
				if i > 0 {
					again = append(again, '+')
				}
				again = event.AppendKeyText(again, part)
			}
			if !bytes.Equal(again, a) {
				t.Fatalf("%q is read, and written as %q", a, again)
			}
		}
	})
}
