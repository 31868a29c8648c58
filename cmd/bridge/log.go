package main

import (
	"io"
	"log/slog"

	"bridge/internal/config"
	"bridge/internal/logevent"
	"bridge/internal/terminal"
)

// newLogger returns a logger for w: text on a terminal and json otherwise, unless format says
// which. Each line has its event. Secrets that are known to secrets do not pass.
func newLogger(w io.Writer, level slog.Level, format string, secrets *config.Redactor) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: secrets.Attr}
	if format == "text" || format == "" && terminal.Is(w) {
		return slog.New(logevent.NewHandler(slog.NewTextHandler(w, options)))
	}
	return slog.New(logevent.NewHandler(slog.NewJSONHandler(w, options)))
}
