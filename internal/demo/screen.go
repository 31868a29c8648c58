package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Screen prints events, one a line of at most 79 columns. The events of a large transaction share a
// line, the header is repeated before it scrolls away, and the first late row is explained. It is
// used by one goroutine.
type Screen struct {
	// W takes the lines.
	W io.Writer
	// Colour adds colours.
	Colour bool
	// Record knows when rows were committed.
	Record *Record

	// lines counts those since the header.
	lines int
	// folded counts the events without a line by the time of their transaction's commit.
	folded map[time.Time]int
	late   lateRows
}

const (
	// headerEvery is how many lines follow a header: a terminal of 24 lines always shows one.
	headerEvery = 20
	// foldFrom is how many events of one transaction share a line.
	foldFrom    = 5
	typeWidth   = 21
	stateWidth  = 35
	originWidth = 4
)

// originWords are short words for what noticed an event, by origin.
var originWords = map[string]string{"late": "late", "modified": "edit", "reconcile": "scan"}

// The codes of colours and their use.
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
	committed, together := s.Record.Committed(e.Fact())
	text := s.line(e.Type, e.key()+"  "+e.state(), e.Origin, committed, now)
	if together >= foldFrom {
		if s.folded == nil {
			s.folded = make(map[time.Time]int)
		}
		if s.folded[committed]++; s.folded[committed] < together {
			s.late.add(e)
			return nil
		}
		delete(s.folded, committed)
		text = s.line(e.Type, fmt.Sprintf("%d %s in one transaction", together, e.Table), e.Origin, committed, now)
	}
	if why := s.late.explain(e, committed); why != "" {
		text += "\n" + s.paint(magenta, why)
	}
	s.late.add(e)
	return s.print(text)
}

// print writes a line, or one with what explains it, and the header before it where that is due.
func (s *Screen) print(line string) error {
	if s.lines == 0 || s.lines >= headerEvery {
		s.lines = 0
		header := strings.Join([]string{fit("time", len(time.TimeOnly)), fit("event", typeWidth), fit("entity and state", stateWidth+originWidth+1), "latency"}, " ")
		if _, err := fmt.Fprintln(s.W, s.paint(dim, header)); err != nil {
			return err
		}
	}
	s.lines += 1 + strings.Count(line, "\n")
	_, err := fmt.Fprintln(s.W, line)
	return err
}

// line is time, type, key and state, what noticed it unless it was the tail, and latency.
func (s *Screen) line(kind, state, origin string, committed, now time.Time) string {
	latency := ""
	if !committed.IsZero() {
		latency = Millis(max(0, now.Sub(committed)))
	}
	return strings.Join([]string{
		s.paint(dim, now.Format(time.TimeOnly)), s.paint(colourOf(kind), fit(kind, typeWidth)), fit(state, stateWidth),
		s.paint(magenta, fit(originWords[origin], originWidth)), fmt.Sprintf("%7s", latency),
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

// fit returns text in exactly width columns. The demo has no wide characters.
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
