package terminal

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Width fits a terminal of 80 columns.
const Width = 79

// Is reports whether w is a terminal.
func Is(w io.Writer) bool {
	file, ok := w.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}

// Visible replaces what a terminal would obey.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// OneLine returns text with every run of white space as one space.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Wrap breaks text between words for lines that begin at a column: the first stands there already,
// the others are indented to it.
func Wrap(text string, column int) string {
	var b strings.Builder
	at := column
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i > 0 && at+1+length > Width:
			b.WriteString("\n" + strings.Repeat(" ", column))
			at = column
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += length
	}
	return b.String()
}

// Cut returns what of text fits into so many columns.
func Cut(text string, columns int) string {
	runes := []rune(text)
	if len(runes) <= columns {
		return text
	}
	return string(runes[:columns-1]) + "…"
}

// Count returns "no things", "1 thing" or "n things".
func Count(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing + "s"
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Table returns rows in columns with so many spaces between them, each cell fit for a terminal.
func Table(gap int, rows [][]any) string {
	var text strings.Builder
	// A strings.Builder takes every write.
	table := tabwriter.NewWriter(&text, 0, 0, gap, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Visible(fmt.Sprint(cell))
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush()
	return text.String()
}

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
	if s.shown = true; !ok {
		_, err := io.WriteString(s.w, before+text)
		return err
	}
	// It begins at the top left corner and replaces all that is there, but for the cursor's row.
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(rows-1, 1); len(lines) > most {
		left := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("… %s more: see bridge status", Count(left, "line")))
	}
	var b strings.Builder
	b.WriteString(before + "\x1b[H")
	for _, line := range lines {
		b.WriteString(Cut(line, columns) + "\x1b[K\n")
	}
	_, err := io.WriteString(s.w, b.String()+"\x1b[J")
	return err
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
