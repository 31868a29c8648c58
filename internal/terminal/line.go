package terminal

import (
	"fmt"
	"io"
	"time"
)

// Line shows how far something has come: on a terminal one line that replaces the other,
// elsewhere one now and then. A nil *Line shows nothing.
type Line struct {
	w        io.Writer
	animated bool
	told     time.Time
	shown    bool
}

// tellEvery is the time between two lines where there is no terminal.
const tellEvery = 10 * time.Second

// NewLine returns a line on w. Without animated, lines are printed one below the other, one every
// 10 s.
func NewLine(w io.Writer, animated bool) *Line {
	return &Line{w: w, animated: animated, told: time.Now()}
}

// Show shows a line. One that cannot be written is not missed.
func (l *Line) Show(line string) {
	switch {
	case l == nil:
	case l.animated:
		l.shown = true
		_, _ = fmt.Fprintf(l.w, "\r\x1b[K%s", Cut(line, Width))
	case time.Since(l.told) >= tellEvery:
		l.told = time.Now()
		_, _ = fmt.Fprintln(l.w, line)
	}
}

// Stop clears the line.
func (l *Line) Stop() {
	if l != nil && l.shown {
		_, _ = fmt.Fprint(l.w, "\r\x1b[K")
	}
}
