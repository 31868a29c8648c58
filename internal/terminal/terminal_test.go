package terminal

import (
	"bytes"
	"log/slog"
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
		{"a jump of ids", 1, 1 << 62, time.Minute, "a jump of ids                  [....................]   0 %"},
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

// TestLogHandler writes lines for people, within 80 columns, that a terminal does not obey.
func TestLogHandler(t *testing.T) {
	var out bytes.Buffer
	replace := func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(strings.ReplaceAll(a.Value.String(), "hunter2", "[redacted]"))
		}
		return a
	}
	h := NewLogHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: replace}, "event")
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	log := func(h slog.Handler, level slog.Level, message string, args ...any) string {
		out.Reset()
		line := slog.NewRecord(at, level, message, 0)
		line.Add(args...)
		if h.Enabled(t.Context(), level) {
			if err := h.Handle(t.Context(), line); err != nil {
				t.Error(err)
			}
		}
		return out.String()
	}
	for _, c := range []struct{ got, want string }{
		{log(h, slog.LevelDebug, "no"), ""},
		{log(h, slog.LevelInfo, "the first"), "2026-01-02\n15:04:05 INFO  the first\n"},
		{log(h, slog.LevelInfo, "caught up"), "15:04:05 INFO  caught up\n"},
		{log(h, slog.LevelInfo, "caught up", "event", "caught_up", "a", 1, "b", 2, "stream", "orders", "c", 3, "d", 4),
			"15:04:05 INFO  caught up stream=orders a=1 b=2 +2 keys\n"},
		{log(h, slog.LevelWarn, "outage begins", "failures", 1, "error", "connection refused", "remedy", "see to the bus hunter2", "after", time.Second, "dependency", "kafka"),
			"15:04:05 WARN  outage begins dependency=kafka failures=1 after=1s\n" +
				"               error: connection refused\n               remedy: see to the bus [redacted]\n"},
		{log(h, slog.LevelError, "a\x1b[2Jb hunter2", "k", "x\n\x1b]y"), "15:04:05 ERROR a [2Jb [redacted]\n               k: x ]y\n"},
		{log(h.WithAttrs([]slog.Attr{slog.String("shard", "t")}).WithGroup("g").WithAttrs([]slog.Attr{slog.Int("n", 1)}), slog.LevelInfo, "m", "k", 2, slog.Group("h", "l", 3), slog.Group("", "o", 4)),
			"15:04:05 INFO  m shard=t g.n=1 g.k=2 +2 keys\n"},
		{log(h, slog.LevelInfo+2, "m"), "15:04:05 INFO+2 m\n"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	at = at.Add(24 * time.Hour)
	for _, want := range []string{"2026-01-03\n15:04:05 INFO  m k=1\n", "15:04:05 INFO  m k=1\n"} {
		if got := log(h.WithAttrs([]slog.Attr{slog.Int("k", 1)}), slog.LevelInfo, "m"); got != want {
			t.Errorf("on the next day: got %q, want %q", got, want)
		}
	}
	long := log(h, slog.LevelWarn, strings.Repeat("word ", 30), "error", strings.Repeat("why ", 60), "a", strings.Repeat("x", 40), "b", strings.Repeat("y", 40))
	for line := range strings.Lines(long) {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("wider than a terminal: %s", line)
		}
	}
}
