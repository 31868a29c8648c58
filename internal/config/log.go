package config

import (
	"context"
	"log/slog"
)

// StreamLogger returns logger for the lines of one stream: their errors name settings by the
// stream's variables.
func StreamLogger(logger *slog.Logger, stream string) *slog.Logger {
	return slog.New(streamHandler{logger.Handler(), StreamText(stream)}).With("stream", stream)
}

type streamHandler struct {
	slog.Handler
	text func(error) string
}

func (h streamHandler) Handle(ctx context.Context, line slog.Record) error {
	named := slog.NewRecord(line.Time, line.Level, line.Message, line.PC)
	line.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(h.text(err))
		}
		named.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, named)
}

func (h streamHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

func (h streamHandler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
