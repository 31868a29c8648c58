package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	sqlite "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

type connector struct {
	path, dsn string
	// driver is our own: what other code registers for all of the process does not reach it.
	driver *sqlite.Driver
	guest  guest
}

// session is one connection, used by one goroutine.
type session struct {
	rawConn
	connector *connector
	// file is what path named when the connection was opened.
	file     fs.FileInfo
	identity string
}

func newConnector(o Options) *connector {
	return &connector{path: o.Path, dsn: o.dsn(), driver: new(sqlite.Driver), guest: guest{path: o.Path, user: os.Geteuid()}}
}

var errReplaced = errors.New("the database file was replaced while it was opened")

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	file, err := c.stat()
	if err != nil {
		return nil, err
	}
	opened, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	// One file has one identity, also by way of links.
	path, err := filepath.EvalSymlinks(c.path)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	s := &session{rawConn: opened.(rawConn), connector: c, file: file, identity: path + " 0"}
	if status, ok := file.Sys().(*syscall.Stat_t); ok {
		s.identity = fmt.Sprintf("%s %d", path, status.Ino)
	}
	if s.replaced() {
		return nil, errors.Join(errReplaced, opened.Close())
	}
	return s, nil
}

func (c *connector) Driver() driver.Driver { return c.driver }

// stat looks at the file and says whether it can be read now. It does not open it: to close it
// would drop the locks that SQLite holds on it.
func (c *connector) stat() (fs.FileInfo, error) {
	file, err := os.Stat(c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, option.Errorf("%w: it is waited for; if the application keeps its database elsewhere, correct %s", err, option.SourceURL)
	case err != nil:
		return nil, err
	case file.IsDir():
		return nil, option.Errorf("%w: it is a directory: name the database file in %s", source.ErrUnfit, option.SourceURL)
	}
	return file, c.guest.check(file)
}

// replaced reports whether the path names another file now, or one that cannot be read.
func (s *session) replaced() bool {
	now, err := s.connector.stat()
	return err != nil || !os.SameFile(now, s.file)
}

// ResetSession has the pool discard a connection to a file that was replaced.
func (s *session) ResetSession(ctx context.Context) error {
	if s.replaced() {
		return driver.ErrBadConn
	}
	return s.rawConn.ResetSession(ctx)
}

// errStale tells that a page was read with columns of another schema or file.
var errStale = errors.New("the columns of the table changed")

// number returns the primary result code (https://www.sqlite.org/rescode.html), 0 for none.
func number(err error) int {
	var refused *sqlite.Error
	if errors.As(err, &refused) {
		return refused.Code() & 0xff
	}
	return 0
}

func isLocked(err error) bool {
	switch number(err) {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_PROTOCOL:
		return true
	}
	return false
}

func mayBeStale(err error) bool {
	switch number(err) {
	case codes.SQLITE_ERROR, codes.SQLITE_SCHEMA:
		return true
	}
	return errors.Is(err, errStale)
}

// explain wraps what only a person can resolve in its sentinel, with a remedy; others stay.
func explain(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w: let the user that bridge runs as read the file and enter its directory", source.ErrDenied, err)
	}
	switch number(err) {
	case codes.SQLITE_NOTADB:
		return option.Errorf("%w: %w: the file is no SQLite database, or an encrypted one: correct the path in %s", source.ErrUnfit, err, option.SourceURL)
	case codes.SQLITE_CORRUPT:
		return fmt.Errorf("%w: %w: look at it with PRAGMA integrity_check and restore it", source.ErrUnfit, err)
	case codes.SQLITE_ERROR:
		return option.Errorf("%w: %w: if a column needs a function or collation of the application, leave it out with %s; "+
			"a condition %s must accept every value of its columns", source.ErrUnfit, err, option.Fields, option.Filter)
	case codes.SQLITE_PERM, codes.SQLITE_AUTH:
		return fmt.Errorf("%w: %w: let the user that bridge runs as read the file", source.ErrDenied, err)
	case codes.SQLITE_CANTOPEN:
		return fmt.Errorf("%w: let the user that bridge runs as read the file and, in WAL mode, write to the -shm file beside it", err)
	case codes.SQLITE_READONLY:
		return fmt.Errorf("%w: either the application was cut off while it wrote, and repairs the file when it opens it next; "+
			"or the database is in WAL mode and the user that bridge runs as may not write beside it", err)
	}
	return err
}
