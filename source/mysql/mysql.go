package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"bridge/internal/backoff"
	"bridge/source"
)

// Source reads tables of one server. It is safe for concurrent use.
type Source struct {
	options Options
	db      *sql.DB
	// dirty holds the sessions that see uncommitted rows; nothing but ids is read there.
	dirty *sql.DB
	// brief has the sessions that read heads, which never wait for long.
	brief     *sql.DB
	connector *connector
	// slots bounds the reading connections below the pool's size, so that Ready never waits for
	// them.
	slots chan struct{}
	// heads is shared by all shards.
	heads headReader
	// traits are what a shard has read last of the server.
	traits atomic.Pointer[serverTraits]
	shapes shapes
}

var _ source.Source = (*Source)(nil)

// Open returns a Source for the server that o describes. It touches no network: a server that is
// away shows at Ready and at the reads.
func Open(o Options) (*Source, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("open mysql source: %w", err)
	}
	c, err := newConnector(o)
	if err != nil {
		return nil, fmt.Errorf("open mysql source: %w", err)
	}
	s := &Source{
		options:   o,
		db:        openPool(c, o.MaxConns+1),
		dirty:     openPool(c.uncommitted(), o.MaxConns),
		brief:     openPool(c.brief(), headConns),
		connector: c,
		slots:     make(chan struct{}, o.MaxConns),
	}
	s.heads.open(s)
	return s, nil
}

func openPool(c *connector, conns int) *sql.DB {
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxLifetime(connLifetime)
	return db
}

// Shard returns the reader of one table.
func (s *Source) Shard(spec source.Spec) source.Shard {
	return s.newShard(spec)
}

func (s *Source) newShard(spec source.Spec) *shard {
	return &shard{source: s, tableSpec: tableSpec{spec, nameTable(spec.Table, s.options.Database)}}
}

// Ready returns nil when the server answers a statement within three times the dial timeout.
func (s *Source) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*s.options.DialTimeout, errNotReady)
	defer cancel()
	return s.use(ctx, s.db, func(c conn) error {
		return c.query(ctx, "SELECT 1", func(func(string) string) {})
	})
}

// Close releases all connections and returns nil. A connection that a restart of the server broke
// cannot tell the server that it ends, which loses nothing: a source only reads.
func (s *Source) Close() error {
	s.heads.close()
	for _, pool := range []*sql.DB{s.db, s.dirty, s.brief} {
		_ = pool.Close()
	}
	return nil
}

var (
	errNotReady = errors.New("the database did not answer in time")
	errNoAnswer = errors.New("no answer from the database although its statement time limit has passed")
)

// do runs fn on a connection of pool under the deadline of a statement.
func (s *Source) do(ctx context.Context, pool *sql.DB, fn func(ctx context.Context, c conn) error) error {
	release, err := backoff.Acquire(ctx, s.slots)
	if err != nil {
		return err
	}
	defer release()
	// Connecting has limits of its own.
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.answerTimeout()+4*s.options.DialTimeout, errNoAnswer)
	defer cancel()
	return s.use(ctx, pool, func(c conn) error {
		ctx, cancel := context.WithTimeoutCause(ctx, s.options.answerTimeout(), errNoAnswer)
		defer cancel()
		return named(ctx, fn(ctx, c))
	})
}

// use runs fn on a connection of pool and closes that unless fn succeeds: after an error there may
// be anything on the wire.
func (s *Source) use(ctx context.Context, pool *sql.DB, fn func(conn) error) error {
	pooled, err := pool.Conn(ctx)
	if err != nil {
		return named(ctx, fmt.Errorf("connect to %s: %w", s.connector.addr, s.options.explainLogin(err)))
	}
	// Raw has told the pool already what to do with the connection.
	defer func() { _ = pooled.Close() }()
	var failed error
	err = pooled.Raw(func(raw any) error {
		if failed = fn(conn{raw.(rawConn)}); failed != nil {
			return driver.ErrBadConn
		}
		return nil
	})
	switch {
	case errors.Is(failed, errCut):
		return nil
	case failed != nil:
		return named(ctx, failed)
	}
	return err
}

// named replaces an error that the end of ctx caused by its cause.
func named(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errCut) || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// seconds formats d for a statement.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
