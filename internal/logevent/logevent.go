package logevent

import (
	"context"
	"log/slog"
	"strings"
)

// Key is the key of the attribute with the name.
const Key = "event"

// Ends are the characters that end the words of an event's name in its message.
const Ends = ",:;.("

// Name returns the name of the event with a message: its words up to the first punctuation, in
// lower case, joined by _.
func Name(message string) string {
	if end := strings.IndexAny(message, Ends); end >= 0 {
		message = message[:end]
	}
	name := make([]byte, 0, len(message))
	gap := false
	for i := range len(message) {
		c := message[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c == '\'':
			continue
		case (c < 'a' || c > 'z') && (c < '0' || c > '9'):
			gap = len(name) > 0
			continue
		}
		if gap {
			name, gap = append(name, '_'), false
		}
		name = append(name, c)
	}
	return string(name)
}

// NewHandler returns a handler that adds the event to each line and hands it on to next.
func NewHandler(next slog.Handler) slog.Handler { return handler{next} }

type handler struct{ slog.Handler }

func (h handler) Handle(ctx context.Context, line slog.Record) error {
	named := slog.NewRecord(line.Time, line.Level, line.Message, line.PC)
	named.AddAttrs(slog.String(Key, Name(line.Message)))
	line.Attrs(func(a slog.Attr) bool {
		named.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, named)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
