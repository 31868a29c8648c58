package terminal

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	if got, want := Table(2, [][]any{{"A", "LONGER"}, {Count(0, "row"), "b\x1b"}, {Count(1, "row"), Count(2, "row")}}), "A        LONGER\nno rows  b \n1 row    2 rows\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Wrap(OneLine(" a\n "+strings.Repeat("b", 72)+"\tcc"), 4), "a "+strings.Repeat("b", 72)+"\n    cc"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLine(t *testing.T) {
	var out bytes.Buffer
	l := NewLine(&out, true)
	l.Show(strings.Repeat("x", 100))
	l.Stop()
	if got, want := out.String(), "\r\x1b[K"+strings.Repeat("x", Width-1)+"…\r\x1b[K"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	out.Reset()
	l = NewLine(&out, false)
	l.Show("too early")
	l.printed = l.printed.Add(-printEvery)
	l.Show("in time")
	l.Stop()
	if got := out.String(); got != "in time\n" {
		t.Errorf("off a terminal: %q", got)
	}
}

func TestProgressBar(t *testing.T) {
	for _, c := range []struct {
		what        string
		done, total uint64
		took        time.Duration
		want        string
	}{
		{"reading the bus", 0, 0, time.Minute, "reading the bus"},
		{"reading the bus", 50, 200, 10 * time.Second, "reading the bus                [#####...............]  25 %, 30s left"},
		{"reading the bus", 300, 200, 0, "reading the bus                [####################] 100 %"},
		{"reading " + strings.Repeat("x", 60), 1, 100, 200 * time.Hour, ""},
	} {
		got := barLine(c.what, c.done, c.total, c.took)
		if c.want != "" && got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if utf8.RuneCountInString(got) > 79 {
			t.Errorf("%q is wider than a terminal", got)
		}
	}
	t.Run("is drawn now and then, and cleared", func(t *testing.T) {
		var out bytes.Buffer
		var none *Line
		none.ShowBar("reading", 1, 2)
		none.Stop()
		bar := NewLine(&out, true)
		bar.ShowBar("reading", 1, 2)
		bar.ShowBar("reading", 2, 2)
		bar.Stop()
		if got := out.String(); strings.Count(got, "reading") != 1 || !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("%q", got)
		}
	})
}

func TestScreen(t *testing.T) {
	var out bytes.Buffer
	show := func(s *Screen, text string) string {
		out.Reset()
		if err := s.Show(text); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	t.Run("replaces what is there on a terminal", func(t *testing.T) {
		s := &Screen{w: &out, size: func() (int, int, bool) { return 5, 4, true }}
		if got := show(s, "abcdefg\nb\n"); got != "\x1b[2J\x1b[Habcd…\x1b[K\nb\x1b[K\n\x1b[J" {
			t.Errorf("%q", got)
		}
		s.size = func() (int, int, bool) { return 80, 4, true }
		if got := show(s, "1\n2\n3\n4\n5\n"); got != "\x1b[H1\x1b[K\n2\x1b[K\n… 3 lines more: see bridge status\x1b[K\n\x1b[J" {
			t.Errorf("%q", got)
		}
	})
	t.Run("is plain elsewhere", func(t *testing.T) {
		s := NewScreen(&out, true)
		if got := show(s, "1\n"); got != "1\n" {
			t.Errorf("%q", got)
		}
		if got := show(s, "2\n"); got != "\n2\n" {
			t.Errorf("%q", got)
		}
	})
}
