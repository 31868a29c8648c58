package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"example.org/bridge/internal/option"
)

var errInUse = option.Errorf("another process uses it: end that, or name another folder, as in %s=embedded:///var/lib/bridge/nats-2",
	option.SinkURL)

// prepare makes the folder, takes its lock and sees that it can be written. The lock lasts until
// the file is closed.
func prepare(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the folder of its data: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("take the folder of its data: %w", err)
	}
	for begun := time.Now(); ; time.Sleep(lockPause) {
		if err = flock(file); !errors.Is(err, errInUse) || time.Since(begun) > lockWait {
			break
		}
	}
	if err == nil {
		err = probe(file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take the folder of its data, %s: %w", dir, err), file.Close())
	}
	return file, nil
}

// lockWait is how long the folder may be in use by somebody who only looks into it, as bridge check
// does.
const lockWait, lockPause = time.Second, 10 * time.Millisecond

func flock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errInUse
	}
	return err
}

// probeBytes is what must fit on the disk at the start.
const probeBytes = 64 << 10

// probe writes to the lock's file, to know of a full disk before the server does.
func probe(file *os.File) error {
	_, err := file.WriteAt(make([]byte, probeBytes), 0)
	if err = errors.Join(err, file.Sync(), file.Truncate(0)); errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is full: make room on it (%w)", syscall.ENOSPC)
	}
	return err
}

func tryAddress(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return errors.New("another process has the port: end it")
	}
	if err != nil {
		return err
	}
	// Nothing was accepted that a failing close could lose.
	_ = listener.Close()
	return nil
}

// gate makes connections to the server and can end them all. The server exchanges its queues of
// requests without a lock when JetStream is switched on again (v2.15, setJetStreamExportSubs), so
// no request may be under way then: one that is would be lost.
type gate struct {
	server *server.Server

	mu    sync.Mutex
	shut  bool
	conns map[*gatedConn]struct{}
}

var errShut = errors.New("the NATS server inside the process is switching JetStream on again")

type gatedConn struct {
	net.Conn
	gate *gate
}

// InProcessConn implements InProcessConnProvider of nats.go. While the gate is shut it fails at
// once; who wants a connection tries again.
func (g *gate) InProcessConn() (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, errShut
	}
	inner, err := g.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	c := &gatedConn{inner, g}
	g.conns[c] = struct{}{}
	return c, nil
}

// Close ends the connection.
func (c *gatedConn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// goneWithin bounds the wait for the server to notice that its clients are gone. Clients from
// outside the process may stay.
const goneWithin = 2 * time.Second

// quiet calls do while no connection of this process is open, unless ctx ends before.
func (g *gate) quiet(ctx context.Context, do func() error) error {
	g.mu.Lock()
	g.shut = true
	for c := range g.conns {
		// The client notices it; there is nothing else to tell.
		_ = c.Conn.Close()
	}
	clear(g.conns)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = false
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); g.server.NumClients() > 0 && time.Since(begun) < goneWithin && ctx.Err() == nil; {
		<-tick.C
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return do()
}

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
