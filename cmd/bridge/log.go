package main

import (
	"io"
	"io/fs"
	"log/slog"
)

// newLogger returns a logger for w: text on a terminal and json otherwise, unless format says which. Secrets that are known to
// secrets do not pass.
func newLogger(w io.Writer, level slog.Level, format string, secrets *redactor) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: secrets.attr}
	if format == "text" || format == "" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}
