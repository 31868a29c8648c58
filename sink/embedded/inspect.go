package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"bridge/internal/inspect"
	"bridge/internal/option"
)

// Inspect looks at what Open would use, as [bridge/sink.Inspector] says, without starting a server
// and without making anything.
func Inspect(ctx context.Context, o Options) inspect.Report {
	r := inspect.Report{Summary: fmt.Sprintf("NATS inside the process, stream %s, data in %s", o.Stream, o.Dir)}
	running := inspectFolder(&r, o.Dir)
	if o.Listen == "" || running {
		return r
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		why := err.Error()
		if errors.Is(err, syscall.EADDRINUSE) {
			why = "another process has the port"
		}
		r.Add(inspect.Unsafe, inspect.SinkUnreachable, "address "+o.Listen, "cannot be listened on: "+why).
			Says("choose another one after listen= in %s; port 0 is a free one", option.SinkURL)
		return r
	}
	// Nothing was accepted that a failing close could lose.
	_ = listener.Close()
	return r
}

// inspectFolder adds what is wrong with the folder and reports whether a server runs in it.
func inspectFolder(r *inspect.Report, dir string) (running bool) {
	subject := "folder " + dir
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			r.Add(inspect.Unsafe, inspect.SinkUnreachable, subject, "is a file").Says("name a folder, as in %s=embedded:///var/lib/bridge/nats", option.SinkURL)
		}
		r.Summary += ", not started yet"
		return false
	case err != nil:
		r.Add(inspect.Unsafe, inspect.SinkUnreachable, subject, "cannot be used: "+err.Error()).
			Says("let the user that runs bridge write to it, or name another folder, as in %s=embedded:///var/lib/bridge/nats", option.SinkURL)
		return false
	}
	// It was opened for its lock alone.
	defer func() { _ = file.Close() }()
	if errors.Is(flock(file), errInUse) {
		r.Summary += ", in use by a bridge that runs"
		return true
	}
	return false
}
