package httpapi

import (
	"bytes"
	"log"
	"log/slog"
)

// errorLog returns the logger that net/http writes its errors to: those of clients, mostly.
func errorLog(logger *slog.Logger) *log.Logger { return log.New(errorLines{logger}, "", 0) }

type errorLines struct{ logger *slog.Logger }

func (e errorLines) Write(line []byte) (int, error) {
	e.logger.Debug("the HTTP server says", "text", string(bytes.TrimSpace(line)))
	return len(line), nil
}
