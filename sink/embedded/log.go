package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
)

// serverLog hands what the server says to a logger; fatal takes the first reason for not starting.
type serverLog struct {
	logger *slog.Logger
	fatal  chan string
	// broken says that a stream takes nothing any more until the server reads it again: it could
	// not be written.
	broken atomic.Bool
}

var _ server.Logger = (*serverLog)(nil)

func (l *serverLog) log(level slog.Level, format string, v []any) {
	ctx := context.Background()
	if l.logger.Enabled(ctx, level) {
		l.logger.Log(ctx, level, "the NATS server inside the process says", "text", fmt.Sprintf(format, v...))
	}
}

// Noticef logs at debug level: notices are about the server's own ways.
func (l *serverLog) Noticef(format string, v ...any) { l.log(slog.LevelDebug, format, v) }

// Debugf logs at debug level.
func (l *serverLog) Debugf(format string, v ...any) { l.log(slog.LevelDebug, format, v) }

// Tracef logs at debug level.
func (l *serverLog) Tracef(format string, v ...any) { l.log(slog.LevelDebug, format, v) }

// Warnf logs a warning.
func (l *serverLog) Warnf(format string, v ...any) { l.log(slog.LevelWarn, format, v) }

// Errorf logs an error, those of the files once until they are read again. The server tells of a
// stream that has become useless in this way alone (setWriteErr in server/filestore.go, stream.go).
func (l *serverLog) Errorf(format string, v ...any) {
	if strings.Contains(strings.ToLower(format), "critical write error") {
		l.broken.Store(true)
	} else if l.broken.Load() {
		l.log(slog.LevelDebug, format, v)
		return
	}
	l.log(slog.LevelError, format, v)
}

// Fatalf does not end the process.
func (l *serverLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
		l.log(slog.LevelError, format, v)
	}
}
