package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// Source reads tables of one database file. It is safe for concurrent use.
type Source struct {
	options Options
	// db has one connection that is no reader's, so that Ready never waits for them.
	db        *sqltable.Pool
	connector *connector
}

var _ source.Source = (*Source)(nil)

// Open returns a Source for the database that o describes. It does not touch the file: one that is
// missing, locked or no database shows at Ready and at the reads.
func Open(o Options) (*Source, error) {
	o = o.withDefaults()
	var err error
	if o.Path, err = filepath.Abs(o.Path); err != nil {
		return nil, fmt.Errorf("open sqlite source: %w", err)
	}
	c := newConnector(o)
	s := &Source{options: o, connector: c, db: &sqltable.Pool{DB: sql.OpenDB(c), Explain: func(err error) error {
		return fmt.Errorf("open %s: %w", o.Path, err)
	}}}
	s.Resize(o.Conns)
	return s, nil
}

// Readers returns how many of most connections read rows.
func Readers(most int) int { return most - 1 }

var _ source.Resizer = (*Source)(nil)

// Resize implements source.Resizer.
func (s *Source) Resize(c source.Conns) { s.db.Resize(c.Readers, 1) }

func (s *Source) Shard(spec source.Spec) source.Shard { return s.newShard(spec) }

// mainDatabase is the only database that a name may have.
const mainDatabase = "main"

func (s *Source) newShard(spec source.Spec) *shard {
	return &shard{source: s, spec: spec, table: sqltable.ParseName(spec.Table, mainDatabase)}
}

// Ready returns nil when the file is there, is a database and can be read within 5 s.
func (s *Source) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, min(readyWait, s.options.StatementTimeout), errNotReady)
	defer cancel()
	return explain(s.retryLocked(ctx, func(c *session) error {
		return c.query(ctx, "PRAGMA schema_version", nil)
	}))
}

// Close releases all connections.
func (s *Source) Close() error { return errors.Join(s.db.Close(), s.connector.guest.close()) }

const readyWait = 5 * time.Second

var (
	errNotReady = errors.New("the database did not answer in time")
	errNoAnswer = errors.New("the statement time limit has passed")
)

// do runs fn on a connection under the time limit of a statement.
func (s *Source) do(ctx context.Context, fn func(ctx context.Context, c *session) error) error {
	release, err := s.db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.StatementTimeout, errNoAnswer)
	defer cancel()
	return s.retryLocked(ctx, func(c *session) error { return fn(ctx, c) })
}

func (s *Source) retryLocked(ctx context.Context, fn func(*session) error) error {
	pause := backoff.Backoff{First: 2 * time.Millisecond, Max: 100 * time.Millisecond}
	for {
		err := s.db.Use(ctx, isLocked, func(raw any) error { return fn(raw.(*session)) })
		if !isLocked(err) {
			return err
		}
		if ended := pause.Wait(ctx); ended != nil {
			return fmt.Errorf("%w: the database is locked by the application: %w", ended, err)
		}
	}
}

type rawConn interface {
	driver.Conn
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

func (s *session) query(ctx context.Context, query string, each func(get func(name string) string), args ...string) error {
	return sqltable.Query(ctx, s, query, each, args...)
}

// guest keeps a user who does not own the database from creating its -wal and -shm files. SQLite
// does even for a reader, and the application could not write to its own database any more.
type guest struct {
	path string
	user int

	mu sync.Mutex
	// header is open for reading its first page until close: closing it any earlier would drop the
	// locks that SQLite holds on the file. It is nil while there was no need to look.
	header *os.File
	file   fs.FileInfo
}

// check returns an error while reading file would create files that belong to the wrong user.
func (g *guest) check(file fs.FileInfo) error {
	status, ok := file.Sys().(*syscall.Stat_t)
	// The superuser's SQLite gives the files to the owner of the database.
	if !ok || g.user == int(status.Uid) || g.user <= 0 || exists(g.path+"-wal") && exists(g.path+"-shm") {
		return nil
	}
	shared, err := g.inWALMode(file)
	if err != nil || !shared {
		return err
	}
	return fmt.Errorf("no application has the database open, which is in WAL mode: it is waited for, because the -wal and -shm files that user %d "+
		"would create lock out user %[2]d, who owns the database; to read without the application, run bridge as user %[2]d", g.user, status.Uid)
}

// inWALMode reads from the header whether SQLite will use a write-ahead log
// (https://www.sqlite.org/fileformat2.html, section 1.3).
func (g *guest) inWALMode(file fs.FileInfo) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.header != nil && !os.SameFile(g.file, file) {
		// A file that was replaced: its locks are not needed.
		_ = g.header.Close()
		g.header = nil
	}
	if g.header == nil {
		opened, err := os.Open(g.path)
		if err != nil {
			return false, err
		}
		if g.file, err = opened.Stat(); err != nil {
			return false, errors.Join(err, opened.Close())
		}
		g.header = opened
	}
	const readVersion, wal = 19, 2
	version := make([]byte, 1)
	// A file that is too short has no log yet.
	n, _ := g.header.ReadAt(version, readVersion)
	return n == 1 && version[0] == wal, nil
}

func (g *guest) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.header == nil {
		return nil
	}
	return g.header.Close()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

var _ source.Lister = (*Source)(nil)

// Tables implements source.Lister. The database of all tables is main.
func (s *Source) Tables(ctx context.Context) (list source.TableList, err error) {
	err = s.do(ctx, func(ctx context.Context, c *session) error {
		list = source.TableList{Writer: true, Own: mainDatabase}
		const tables = `SELECT name AS t, type FROM pragma_table_list WHERE schema = 'main' AND type <> 'view' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`
		return c.query(ctx, tables, func(get func(string) string) {
			list.Names = append(list.Names, source.TableName{Database: mainDatabase, Table: get("t")})
			if get("type") != "table" {
				list.Inner = append(list.Inner, list.Names[len(list.Names)-1])
			}
		})
	})
	if err != nil {
		return source.TableList{}, fmt.Errorf("list the tables: %w", explain(err))
	}
	return list, nil
}

var _ source.Describer = (*Source)(nil)

// Describe implements [source.Describer].
func (s *Source) Describe(ctx context.Context, table string) (source.Description, error) {
	t := s.newShard(source.Spec{Table: table}).inspection(source.Expected{Spec: source.Spec{Table: table}})
	if err := s.do(ctx, t.read); err != nil {
		return source.Description{}, fmt.Errorf("read the columns of %s: %w", table, explain(err))
	}
	return t.Describe(), nil
}

// Options say where the database is and how to use it.
type Options struct {
	// Path is the database file. It need not exist yet. Required.
	Path string
	// TimeZone is the zone of times in DATETIME columns that do not name one. Defaults to UTC.
	TimeZone *time.Location
	// Epoch is the unit of Unix times: a second or a millisecond. Defaults to 1 s.
	Epoch time.Duration
	// Conns bounds the connections. Its Readers defaults to 4.
	Conns source.Conns
	// StatementTimeout bounds a statement, with the time that it waits for a lock of the
	// application. Defaults to 30 s.
	StatementTimeout time.Duration
	// Logger receives changes of columns. Defaults to none.
	Logger *slog.Logger
}

const (
	// lockWait is how long SQLite itself waits for a lock, deaf to ctx; longer waits are ours.
	lockWait = 50 * time.Millisecond
	// cacheKiB bounds the memory of a connection; pages are read once, in order.
	cacheKiB = 512
)

func (o Options) withDefaults() Options {
	o.TimeZone = cmp.Or(o.TimeZone, time.UTC)
	o.Epoch = cmp.Or(o.Epoch, time.Second)
	o.Conns.Readers = cmp.Or(o.Conns.Readers, 4)
	o.StatementTimeout = cmp.Or(o.StatementTimeout, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// dsn is a URI because mode=ro is silently dropped from a plain name.
func (o Options) dsn() string {
	// Invariant 8: mode=ro opens for reading only, query_only refuses statements that write.
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(o.Path), RawQuery: fmt.Sprintf(
		"mode=ro&_query_only=1&_dqs=0&_error_rc=1&_busy_timeout=%d&_pragma=cache_size(-%d)", lockWait.Milliseconds(), cacheKiB)}
	return u.String()
}

// ParseURL reads "sqlite:///absolute/path.db?epoch=s" or "sqlite:relative/path.db". A relative path
// starts at the working directory of the process. A ?, # or % in the path is percent-encoded.
// Parameters:
//
//	epoch=s    numbers in columns of times are Unix times in seconds, the default
//	epoch=ms   in milliseconds
//
// Nothing is read from disk.
func ParseURL(text string) (Options, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "sqlite" || u.User != nil || u.Host != "" || u.Fragment != "" {
		return Options{}, errors.New("must look like sqlite:///absolute/path.db, with three slashes, or sqlite:relative/path.db, with none; " +
			"special characters in the path percent-encoded (? is %3F, # is %23, % is %25)")
	}
	path := u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return Options{}, errors.New("malformed path: a % is written %25")
		}
	}
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return Options{}, errors.New("the path must name the database file, as in sqlite:///var/lib/app/app.db")
	case path == ":memory:":
		return Options{}, errors.New("a database in memory belongs to the process that made it: name a file, as in sqlite:///var/lib/app/app.db")
	case strings.ContainsRune(path, 0):
		return Options{}, errors.New("the path must not hold a NUL")
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Options{}, errors.New("malformed parameters: they look like ?epoch=ms")
	}
	epoch := parameters.Get("epoch")
	if delete(parameters, "epoch"); len(parameters) > 0 {
		return Options{}, errors.New("unknown parameter: known is epoch")
	}
	unit, known := map[string]time.Duration{"": 0, "s": time.Second, "ms": time.Millisecond}[epoch]
	if !known {
		return Options{}, errors.New("epoch must be s or ms")
	}
	return Options{Path: path, Epoch: unit}, nil
}
