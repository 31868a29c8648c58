package terminal

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
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

// Visible replaces what a terminal would obey, also what turns the direction of text.
func Visible(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(Lines(text))
}

// Lines is Visible for text of several lines, which stay so, with their tabs.
func Lines(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
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
		if left := (1 - share) / share * float64(took); left < float64(most) {
			line += fmt.Sprintf(", %s left", time.Duration(left).Round(time.Second))
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

const (
	// logIndent is the column below which a log line goes on: that of its message.
	logIndent = 15
	// mostKeys is how many attributes a line has below warning: JSON has them all.
	mostKeys = 3
)

// firstKeys name what a line is about: they come first.
var firstKeys = []string{"stream", "shard", "dependency"}

// logHandler writes log lines for people: time, level, message, and a few attributes; of a warning
// or an error all of them. Long values are paragraphs of their own below. A line has no control
// character, and fits 80 columns unless a word does not. The date stands above the first line of a
// day.
type logHandler struct {
	w       io.Writer
	options slog.HandlerOptions
	// omitted are the keys of attributes that a person does without.
	omitted []string
	groups  []string
	attrs   []slog.Attr
	written *writtenDay
}

type writtenDay struct {
	sync.Mutex
	day string
}

// NewLogHandler returns a handler that writes log lines for people to w. It leaves out attributes
// with the omitted keys. Options are as those of slog's handlers.
func NewLogHandler(w io.Writer, options *slog.HandlerOptions, omitted ...string) slog.Handler {
	return &logHandler{w: w, options: *options, omitted: omitted, written: new(writtenDay)}
}

func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.options.Level == nil || level >= h.options.Level.Level()
}

func (h *logHandler) Handle(_ context.Context, line slog.Record) error {
	attrs := slices.Clone(h.attrs)
	line.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, h.replaced(h.groups, a)...)
		return true
	})
	message := h.replaced(nil, slog.String(slog.MessageKey, line.Message))[0].Value.String()
	_, err := h.write(line.Time, line.Level, message, attrs)
	return err
}

func (h *logHandler) write(at time.Time, level slog.Level, message string, attrs []slog.Attr) (int, error) {
	slices.SortStableFunc(attrs, func(a, b slog.Attr) int { return rankOfKey(a.Key) - rankOfKey(b.Key) })
	var words, below []string
	left := 0
	for _, a := range attrs {
		text := OneLine(Visible(a.Value.String()))
		switch {
		case slices.Contains(h.omitted, a.Key):
		case level < slog.LevelWarn && len(words)+len(below) == mostKeys:
			left++
		case strings.Contains(text, " ") || utf8.RuneCountInString(text) > Width-logIndent-len(a.Key):
			below = append(below, a.Key+": "+text)
		default:
			words = append(words, a.Key+"="+text)
		}
	}
	if left > 0 {
		words = append(words, "+"+Count(left, "key"))
	}
	var b strings.Builder
	// INFO+2 has more letters than the column.
	head := at.Format(time.TimeOnly) + " " + level.String()
	b.WriteString(head + strings.Repeat(" ", max(1, logIndent-len(head))))
	b.WriteString(Wrap(strings.Join(append([]string{Visible(message)}, words...), " "), logIndent))
	for _, text := range below {
		b.WriteString("\n" + strings.Repeat(" ", logIndent) + Wrap(text, logIndent))
	}
	h.written.Lock()
	defer h.written.Unlock()
	date := at.Format(time.DateOnly) + "\n"
	if date == h.written.day {
		date = ""
	}
	n, err := io.WriteString(h.w, date+b.String()+"\n")
	if date != "" && err == nil {
		h.written.day = date
	}
	return n, err
}

func rankOfKey(key string) int {
	if at := slices.Index(firstKeys, key); at >= 0 {
		return at
	}
	return len(firstKeys)
}

// replaced returns an attribute as the options have it, that of a group as several, with the names
// of the groups in front.
func (h *logHandler) replaced(groups []string, a slog.Attr) (all []slog.Attr) {
	a.Value = a.Value.Resolve()
	if a.Value.Kind() == slog.KindGroup {
		if a.Key != "" {
			groups = append(slices.Clone(groups), a.Key)
		}
		for _, one := range a.Value.Group() {
			all = append(all, h.replaced(groups, one)...)
		}
		return all
	}
	if replace := h.options.ReplaceAttr; replace != nil {
		a = replace(groups, a)
		a.Value = a.Value.Resolve()
	}
	if a.Equal(slog.Attr{}) {
		return nil
	}
	a.Key = strings.Join(append(slices.Clone(groups), a.Key), ".")
	return []slog.Attr{a}
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		next.attrs = append(next.attrs, h.replaced(h.groups, a)...)
	}
	return &next
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	next := *h
	if name != "" {
		next.groups = append(slices.Clone(h.groups), name)
	}
	return &next
}
