package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Screen prints events, one a line of at most 79 columns, and leaves out what is more than a person can read. It is safe for
// concurrent use.
type Screen struct {
	// W takes the lines.
	W io.Writer
	// Colour adds colours.
	Colour bool
	// Record knows when rows were committed.
	Record *Record

	mu sync.Mutex
	// second is the one that lines were printed in, left out are its events without a line.
	second       time.Time
	printed, out int
}

const (
	// linesPerSecond is what a person can follow.
	linesPerSecond = 20
	typeWidth      = 26
	keyWidth       = 31
	noticedWidth   = 4
)

// noticed are short words for what noticed an event, by origin.
var noticed = map[string]string{"late": "late", "modified": "edit", "reconcile": "scan"}

// The codes of colours and what they are for.
const (
	plain   = "\x1b[0m"
	dim     = "\x1b[2m"
	red     = "\x1b[31m"
	green   = "\x1b[32m"
	yellow  = "\x1b[33m"
	magenta = "\x1b[35m"
	cyan    = "\x1b[36m"
)

// Show prints one event, received now. The error is that of W.
func (s *Screen) Show(e Event, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if second := now.Truncate(time.Second); !second.Equal(s.second) {
		if err := s.flush(); err != nil {
			return err
		}
		s.second = second
	}
	if s.printed >= linesPerSecond {
		s.out++
		return nil
	}
	s.printed++
	_, err := io.WriteString(s.W, s.line(e, now)+"\n")
	return err
}

// Flush tells of what was left out last.
func (s *Screen) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flush()
}

func (s *Screen) flush() error {
	out := s.out
	s.printed, s.out = 0, 0
	if out == 0 {
		return nil
	}
	_, err := fmt.Fprintln(s.W, s.paint(dim, fmt.Sprintf("         … and %d more in this second", out)))
	return err
}

// line is time, type, key and state, what noticed it unless it was the tail, and latency.
func (s *Screen) line(e Event, now time.Time) string {
	latency := ""
	if committed, ok := s.Record.Committed(e.Fact()); ok {
		latency = Millis(max(0, now.Sub(committed)))
	}
	what := e.key()
	if members := e.shown(); members != "" {
		what += "  " + members
	}
	return strings.Join([]string{
		s.paint(dim, now.Format(time.TimeOnly)), s.paint(colourOf(e.Type), fit(e.Type, typeWidth)), fit(what, keyWidth),
		s.paint(magenta, fit(noticed[e.Origin], noticedWidth)), fmt.Sprintf("%6s", latency),
	}, " ")
}

func (s *Screen) paint(colour, text string) string {
	if !s.Colour || colour == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return colour + text + plain
}

func colourOf(kind string) string {
	for part, colour := range map[string]string{"Added": green, "Modified": yellow, "Deleted": red, "Published": cyan} {
		if strings.Contains(kind, part) {
			return colour
		}
	}
	return ""
}

// fit returns text in exactly width columns. What is shown has no wide characters.
func fit(text string, width int) string {
	if n := utf8.RuneCountInString(text); n <= width {
		return text + strings.Repeat(" ", width-n)
	}
	return string([]rune(text)[:width-1]) + "…"
}

// Millis returns a duration in five columns or so.
func Millis(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 1000*time.Second:
		return fmt.Sprintf("%.0fs", d.Seconds())
	}
	return fmt.Sprintf("%.0fmin", d.Minutes())
}
