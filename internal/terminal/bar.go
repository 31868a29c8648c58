package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Bar shows on one line of a terminal how far a long work is. A nil *Bar shows nothing. It serves
// one goroutine.
type Bar struct {
	w     io.Writer
	what  string
	begun time.Time
	drawn time.Time
	shown bool
}

// drawEvery is the least time between two drawings.
const drawEvery = 100 * time.Millisecond

// NewBar returns a bar on w, which is a terminal.
func NewBar(w io.Writer) *Bar { return &Bar{w: w, begun: time.Now()} }

// Show says what is being done and how far it is; a total of 0 is not known.
func (b *Bar) Show(what string, done, total uint64) {
	if b == nil {
		return
	}
	now := time.Now()
	if what != b.what {
		b.what, b.begun = what, now
	}
	if now.Sub(b.drawn) < drawEvery {
		return
	}
	b.drawn, b.shown = now, true
	// A line that cannot be drawn is not missed.
	_, _ = fmt.Fprintf(b.w, "\r\x1b[K%s", barLine(what, done, total, now.Sub(b.begun)))
}

// Stop clears the line.
func (b *Bar) Stop() {
	if b != nil && b.shown {
		_, _ = fmt.Fprint(b.w, "\r\x1b[K")
	}
}

// barLine is a line of at most Width columns for a work that has taken so long.
func barLine(what string, done, total uint64, took time.Duration) string {
	const width, room, most = 20, 30, 100 * time.Hour
	if runes := []rune(what); len(runes) > room {
		what = string(runes[:room-1]) + "…"
	}
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
