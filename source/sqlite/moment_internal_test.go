package sqlite

import (
	"strings"
	"testing"
	"time"

	"example.org/bridge/source"
)

func FuzzTextTime(f *testing.F) {
	for _, seed := range []string{
		"2026-07-01 12:00:00.123456789+02:00", "2026-07-01T12:00Z", "2026-07-01", "0000-01-01 00:00:00+23:59", "9999-12-31 23:59:59-01", "", "ü",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v string) {
		form := valueForm{kind: source.Timestamp, zone: time.UTC, epoch: time.Second}
		got := string(form.appendText(nil, v))
		if got == v {
			return
		}
		// What is not left alone is in the normal form, and that form stands for itself.
		at, ok := source.Column{Kind: source.Timestamp}.Time([]byte(got), nil)
		if !ok || at.Format(timestampLayout) != got || string(form.appendText(nil, got)) != got {
			t.Fatalf("%q becomes %q", v, got)
		}
		if day := string(valueForm{kind: source.Date, zone: time.UTC}.appendText(nil, v)); day != v && v[:len(day)] != day {
			t.Fatalf("%q is the day %q", v, day)
		}
	})
}

func FuzzUnixTime(f *testing.F) {
	for _, seed := range []int64{0, -1, 1782907200, minUnix, maxUnix, maxUnix + 1, 1<<63 - 1, -1 << 63} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, whole int64) {
		for _, epoch := range []time.Duration{time.Second, time.Millisecond} {
			form := valueForm{kind: source.Timestamp, epoch: epoch}
			if at, ok := form.unixTime(whole); ok && (at.Year() < 0 || at.Year() > 9999 || at.Unix() != floor(whole, int64(time.Second/epoch))) {
				t.Fatalf("%d by %v is %v", whole, epoch, at)
			}
		}
	})
}

func floor(a, b int64) int64 {
	if a%b < 0 {
		return a/b - 1
	}
	return a / b
}

func FuzzAutoIncrement(f *testing.F) {
	for _, seed := range []string{"CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)", "'it''s", "[x", "/*", "--", `"a""b"`, "`"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
		if isAutoIncrement(quoted) || !isAutoIncrement(quoted+" autoincrement") || isAutoIncrement(quoted+" ü$autoincrement, autoincrementü") {
			t.Fatalf("%q", quoted)
		}
	})
}
