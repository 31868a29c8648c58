package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Line shows how far something has come: on a terminal one line that replaces the other,
// elsewhere one now and then. A nil *Line shows nothing. It serves one goroutine.
type Line struct {
	w        io.Writer
	animated bool
	printed  time.Time
	shown    bool

	// what is the work of the bar, which has taken so long since begun.
	what         string
	begun, drawn time.Time
}

const (
	// printEvery is the time between two lines where there is no terminal.
	printEvery = 10 * time.Second
	// drawEvery is the least time between two drawings of a bar.
	drawEvery = 100 * time.Millisecond
)

// NewLine returns a line on w. Without animated, lines are printed one below the other, one every
// 10 s.
func NewLine(w io.Writer, animated bool) *Line {
	return &Line{w: w, animated: animated, printed: time.Now()}
}

// Show shows a line. One that cannot be written is not missed.
func (l *Line) Show(line string) {
	switch {
	case l == nil:
	case l.animated:
		l.shown = true
		_, _ = fmt.Fprintf(l.w, "\r\x1b[K%s", Cut(line, Width))
	case time.Since(l.printed) >= printEvery:
		l.printed = time.Now()
		_, _ = fmt.Fprintln(l.w, line)
	}
}

// ShowBar shows what is being done and how far it is; a total of 0 is not known.
func (l *Line) ShowBar(what string, done, total uint64) {
	if l == nil {
		return
	}
	now := time.Now()
	if what != l.what {
		l.what, l.begun = what, now
	}
	if now.Sub(l.drawn) >= drawEvery {
		l.drawn = now
		l.Show(barLine(what, done, total, now.Sub(l.begun)))
	}
}

// barLine is a line of at most Width columns for a work that has taken so long.
func barLine(what string, done, total uint64, took time.Duration) string {
	const width, room, most = 20, 30, 100 * time.Hour
	what = Cut(what, room)
	if total == 0 {
		return what
	}
	done = min(done, total)
	share := float64(done) / float64(total)
	full := int(share * width)
	line := fmt.Sprintf("%-*s [%s%s] %3.0f %%", room, what, strings.Repeat("#", full), strings.Repeat(".", width-full), 100*share)
	if seconds := took.Seconds(); seconds >= 1 && done > 0 {
		if left := time.Duration((1 - share) / share * float64(took)); left < most {
			line += fmt.Sprintf(", %s left", left.Round(time.Second))
		}
	}
	return line
}

// Stop clears the line.
func (l *Line) Stop() {
	if l != nil && l.shown {
		_, _ = fmt.Fprint(l.w, "\r\x1b[K")
	}
}
