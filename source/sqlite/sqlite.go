package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"bridge/internal/backoff"
	"bridge/source"
)

// Source reads tables of one database file. It is safe for concurrent use.
type Source struct {
	options   Options
	db        *sql.DB
	connector *connector
	// slots bounds the reading connections below the pool's size, so that Ready never waits for
	// them.
	slots chan struct{}
}

var _ source.Source = (*Source)(nil)

// Open returns a Source for the database that o describes. It does not touch the file: one that is
// missing, locked or no database shows at Ready and at the reads.
func Open(o Options) (*Source, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("open sqlite source: %w", err)
	}
	var err error
	if o.Path, err = filepath.Abs(o.Path); err != nil {
		return nil, fmt.Errorf("open sqlite source: %w", err)
	}
	c := newConnector(o)
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(o.MaxConns + 1)
	db.SetMaxIdleConns(o.MaxConns + 1)
	return &Source{options: o, db: db, connector: c, slots: make(chan struct{}, o.MaxConns)}, nil
}

// Shard returns the reader of one table.
func (s *Source) Shard(spec source.Spec) source.Shard {
	return &shard{source: s, spec: spec, table: nameTable(spec.Table)}
}

// Ready returns nil when the file is there, is a database and can be read within 5 s.
func (s *Source) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, min(readyWait, s.options.StatementTimeout), errNotReady)
	defer cancel()
	return explain(s.retryLocked(ctx, func(c *session) error {
		return c.query(ctx, "PRAGMA schema_version", func(func(string) string) {})
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
	release, err := backoff.Acquire(ctx, s.slots)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.StatementTimeout, errNoAnswer)
	defer cancel()
	return s.retryLocked(ctx, func(c *session) error { return fn(ctx, c) })
}

// retryLocked runs fn on a connection, again and again while the database is locked.
func (s *Source) retryLocked(ctx context.Context, fn func(*session) error) error {
	pause := backoff.Backoff{First: 2 * time.Millisecond, Max: 100 * time.Millisecond}
	for {
		err := s.use(ctx, fn)
		if !isLocked(err) {
			return err
		}
		if ended := pause.Wait(ctx); ended != nil {
			return fmt.Errorf("%w: the database is locked by the application: %w", ended, err)
		}
	}
}

// use runs fn on a connection and closes that if fn fails, unless all that failed was a lock.
func (s *Source) use(ctx context.Context, fn func(*session) error) error {
	pooled, err := s.db.Conn(ctx)
	if err != nil {
		return named(ctx, fmt.Errorf("open %s: %w", s.options.Path, err))
	}
	// Raw has told the pool already what to do with the connection.
	defer func() { _ = pooled.Close() }()
	var failed error
	err = pooled.Raw(func(raw any) error {
		if failed = fn(raw.(*session)); failed != nil && !isLocked(failed) {
			return driver.ErrBadConn
		}
		return nil
	})
	if failed != nil {
		return named(ctx, failed)
	}
	return err
}

// named replaces an error that the end of ctx caused by its cause.
func named(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || isLocked(err) {
		return err
	}
	return context.Cause(ctx)
}
