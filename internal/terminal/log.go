package terminal

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

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

// writtenDay is the day of the last line.
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
