package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"bridge/internal/option"
)

// errInUse says that another process holds the folder.
var errInUse = option.Errorf("another process uses it: end that, or name another folder, as in %s=embedded:///var/lib/bridge/nats-2", option.SinkURL)

// lock is the hold on a folder.
type lock struct{ file *os.File }

// prepare makes the folder, takes its lock and sees that it can be written.
func prepare(dir string) (*lock, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the folder of its data: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("take the folder of its data: %w", err)
	}
	l := &lock{file}
	if err = flock(file); err == nil {
		err = probe(file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take the folder of its data, %s: %w", dir, err), l.release())
	}
	return l, nil
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

// release lets the folder go.
func (l *lock) release() error { return l.file.Close() }

// listenOn puts an address into options; one that is taken is an error.
func listenOn(ctx context.Context, address string, options *server.Options) error {
	// The server would report a taken port to its log alone.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s: another process has the port: end it, or choose another one; port 0 is a free one", address)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	if err := listener.Close(); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	options.Host = host
	options.Port, err = strconv.Atoi(port)
	options.Port = cmp.Or(options.Port, server.RANDOM_PORT)
	return err
}
