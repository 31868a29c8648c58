package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"

	sqlite "modernc.org/sqlite"

	"bridge/internal/option"
	"bridge/source"
)

// connector opens connections to one file.
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
	file fs.FileInfo
	// identity tells files apart.
	identity string
}

func newConnector(o Options) *connector {
	return &connector{path: o.Path, dsn: o.dsn(), driver: new(sqlite.Driver), guest: guest{path: o.Path, user: os.Geteuid()}}
}

var errReplaced = errors.New("the database file was replaced while it was opened")

// Connect opens a connection.
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
	s := &session{rawConn: opened.(rawConn), connector: c, file: file, identity: fmt.Sprintf("%s %d", c.path, fileNumber(file))}
	if s.replaced() {
		return nil, errors.Join(errReplaced, opened.Close())
	}
	return s, nil
}

// Driver returns the driver of the connections.
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
