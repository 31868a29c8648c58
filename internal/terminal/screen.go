package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Screen shows a text that replaces the one before: on a terminal over it, elsewhere below it
// and an empty line.
type Screen struct {
	w io.Writer
	// size returns the columns and rows there are, ok is false where there is no terminal.
	size  func() (columns, rows int, ok bool)
	shown bool
}

// NewScreen returns a screen on w. Without animated, texts are printed one below the other.
func NewScreen(w io.Writer, animated bool) *Screen {
	return &Screen{w: w, size: func() (int, int, bool) {
		columns, rows, ok := size(w)
		return columns, rows, ok && animated
	}}
}

// Show shows a text, whose lines end with a line end. On a terminal, what does not fit is left out.
func (s *Screen) Show(text string) error {
	columns, rows, ok := s.size()
	before := ""
	switch {
	case !ok && s.shown:
		before = "\n"
	case ok && !s.shown:
		before = "\x1b[2J"
	}
	s.shown = true
	if ok {
		text = placed(text, columns, rows)
	}
	_, err := io.WriteString(s.w, before+text)
	return err
}

// placed has a text begin at the top left corner and replace all that is there. It leaves the last
// row to the cursor.
func placed(text string, columns, rows int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(rows-1, 1); len(lines) > most {
		left := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("… %s more: see bridge status", Count(left, "line")))
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range lines {
		b.WriteString(Cut(line, columns) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// size returns the columns and rows of the terminal that w is; ok is false where it is none, or
// does not say.
func size(w io.Writer) (columns, rows int, ok bool) {
	file, is := w.(*os.File)
	if !is {
		return 0, 0, false
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}

// Columns returns how many columns the terminal has that w is; ok is false where it is none, or
// does not say.
func Columns(w io.Writer) (columns int, ok bool) {
	columns, _, ok = size(w)
	return columns, ok
}
