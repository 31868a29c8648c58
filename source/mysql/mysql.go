package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// Source reads tables of one server. It is safe for concurrent use.
type Source struct {
	options Options
	// db has one connection that is no reader's, so that Ready never waits for them.
	db *sqltable.Pool
	// dirty holds the sessions that see uncommitted rows; nothing but ids is read there.
	dirty *sqltable.Pool
	// brief has the sessions that read heads, which never wait for long.
	brief     *sqltable.Pool
	connector *connector
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
	c, err := newConnector(o)
	if err != nil {
		return nil, fmt.Errorf("open mysql source: %w", err)
	}
	uncommitted, brief := *c, *c
	uncommitted.isolation = "READ UNCOMMITTED"
	brief.hasty, brief.options.StatementTimeout = true, min(headTimeout, o.StatementTimeout)
	s := &Source{options: o, db: c.pool(), dirty: uncommitted.pool(), brief: brief.pool(), connector: c}
	s.Resize(o.Conns)
	s.heads.open(s)
	return s, nil
}

func (c *connector) pool() *sqltable.Pool {
	db := sql.OpenDB(c)
	db.SetConnMaxLifetime(connLifetime)
	return &sqltable.Pool{DB: db, Explain: func(err error) error {
		return fmt.Errorf("connect to %s: %w", c.addr, c.options.explainLogin(err))
	}}
}

// mostHeadConns is how many connections read heads, where there are enough.
const mostHeadConns = 2

// One more connection is for Ready.
func divide(most int) (readers, dirty, heads int) {
	heads = 1
	if most >= 12 {
		heads = mostHeadConns
	}
	rest := most - 1 - heads
	dirty = max(1, rest/4)
	return rest - dirty, dirty, heads
}

// Readers returns how many of most connections read rows.
func Readers(most int) int {
	readers, _, _ := divide(most)
	return readers
}

var _ source.Resizer = (*Source)(nil)

// Resize implements source.Resizer. Without a bound there are at most 2 × Readers + 3 connections.
func (s *Source) Resize(c source.Conns) {
	dirty, heads := c.Readers, mostHeadConns
	if c.Most > 0 {
		_, dirty, heads = divide(c.Most)
	}
	s.db.Resize(c.Readers, 1)
	s.dirty.Resize(dirty, 0)
	s.brief.Resize(heads, 0)
	s.heads.conns.Store(int32(heads))
}

func (s *Source) pool(uncommitted bool) *sqltable.Pool {
	if uncommitted {
		return s.dirty
	}
	return s.db
}

func (s *Source) Shard(spec source.Spec) source.Shard {
	return s.newShard(spec)
}

func (s *Source) newShard(spec source.Spec) *shard {
	return &shard{source: s, tableSpec: tableSpec{spec, sqltable.ParseName(spec.Table, s.options.Database)}}
}

// Ready returns nil when the server answers a statement within three times the dial timeout.
func (s *Source) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*s.options.DialTimeout, errNotReady)
	defer cancel()
	return s.use(ctx, s.db, func(c conn) error {
		return c.query(ctx, "SELECT 1", nil)
	})
}

// Close releases all connections and returns nil. A connection that a restart of the server broke
// cannot tell the server that it ends, which loses nothing: a source only reads.
func (s *Source) Close() error {
	s.heads.cancel()
	s.heads.running.Wait()
	for _, pool := range []*sqltable.Pool{s.db, s.dirty, s.brief} {
		_ = pool.Close()
	}
	return nil
}

var (
	errNotReady = errors.New("the database did not answer in time")
	errNoAnswer = errors.New("no answer from the database although its statement time limit has passed")
)

// do runs fn on a connection of pool under the deadline of a statement.
func (s *Source) do(ctx context.Context, pool *sqltable.Pool, fn func(ctx context.Context, c conn) error) error {
	release, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	// Connecting has limits of its own.
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.answerTimeout()+4*s.options.DialTimeout, errNoAnswer)
	defer cancel()
	err = pool.Use(ctx, closes, func(raw any) error {
		ctx, cancel := context.WithTimeoutCause(ctx, s.options.answerTimeout(), errNoAnswer)
		defer cancel()
		err := fn(ctx, conn{raw.(rawConn)})
		if errors.Is(err, errCut) {
			return err
		}
		return sqltable.Cause(ctx, err)
	})
	if errors.Is(err, errCut) {
		return nil
	}
	return err
}

// closes has a connection be closed behind any error.
func closes(error) bool { return false }

// use runs fn on a connection of pool and closes that unless fn succeeds.
func (s *Source) use(ctx context.Context, pool *sqltable.Pool, fn func(conn) error) error {
	return pool.Use(ctx, closes, func(raw any) error { return fn(conn{raw.(rawConn)}) })
}

type rawConn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
}

// conn is one connection, used by one goroutine.
type conn struct{ rawConn }

func (c conn) query(ctx context.Context, query string, each func(get func(name string) string), args ...string) error {
	return sqltable.Query(ctx, c, query, each, args...)
}

// tryQuery runs a small query that the server may refuse, or not know: that is not an error.
func (c conn) tryQuery(ctx context.Context, query string, each func(get func(name string) string)) error {
	if err := c.query(ctx, query, each); number(err) == 0 {
		return err
	}
	return nil
}

func (c conn) exec(ctx context.Context, statement string) error {
	_, err := c.ExecContext(ctx, statement, nil)
	return err
}

var _ source.Uptimer = (*shard)(nil)

// Started implements source.Uptimer.
func (s *shard) Started() time.Time {
	if seconds := s.source.connector.started.Load(); seconds > 0 {
		return time.Unix(seconds, 0)
	}
	return time.Time{}
}

// noteUptime asks each new connection, as nothing else shows that a server was started in between.
func noteUptime(ctx context.Context, session conn, started *atomic.Int64) error {
	begun := time.Now()
	ask := func(statement, column string) (n int64, err error) {
		n = -1
		err = session.tryQuery(ctx, statement, func(get func(string) string) {
			if v, err := strconv.ParseInt(get(column), 10, 64); err == nil {
				n = v
			}
		})
		return n, err
	}
	clock, err := ask("SELECT UNIX_TIMESTAMP() AS now", "now")
	if err != nil {
		return err
	}
	uptime, err := ask("SHOW STATUS LIKE 'Uptime'", "Value")
	if err != nil {
		return err
	}
	// A compatible server may not tell, and answers that took long do not fit one another. This
	// host's clock is of no account.
	if clock >= 0 && uptime >= 0 && time.Since(begun) < slowUptime {
		started.Store(clock - uptime)
	}
	return nil
}

// slowUptime is how long the two answers may take together.
const slowUptime = time.Second

var _ source.Lister = (*Source)(nil)

// listTables is the statement of Tables. It has a row even where there is no table.
const listTables = "SELECT t.TABLE_SCHEMA AS s, t.TABLE_NAME AS t, @@GLOBAL.read_only AS r FROM (SELECT 1) AS one LEFT JOIN information_schema.TABLES AS t" +
	" ON t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND t.TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')"

// Tables implements source.Lister.
func (s *Source) Tables(ctx context.Context) (list source.TableList, err error) {
	err = s.do(ctx, s.db, func(ctx context.Context, c conn) error {
		list = source.TableList{Own: s.options.Database}
		return c.query(ctx, listTables, func(get func(string) string) {
			list.Writer = get("r") == "0" || get("r") == "OFF"
			if name := get("t"); name != "" {
				list.Names = append(list.Names, source.TableName{Database: get("s"), Table: name})
			}
		})
	})
	if err != nil {
		return source.TableList{}, fmt.Errorf("list the tables: %w", err)
	}
	return list, nil
}

var _ source.Describer = (*Source)(nil)

// Describe implements [source.Describer].
func (s *Source) Describe(ctx context.Context, table string) (source.Description, error) {
	shard := s.newShard(source.Spec{Table: table})
	if shard.table.Database == "" {
		return source.Description{}, errNoDatabase
	}
	t := shard.inspection(source.Expected{Spec: shard.spec})
	err := s.do(ctx, s.db, func(ctx context.Context, c conn) error {
		if err := t.readColumns(ctx, c); err != nil {
			return err
		}
		// With a counter, the first column of the primary key is an id even beside others.
		if at := slices.IndexFunc(t.Table.Columns, func(c sqltable.Column) bool { return c.Numbered }); at >= 0 {
			t.Spec.ID = t.Table.Columns[at].Name
			if err := t.readColumns(ctx, c); err != nil {
				return err
			}
		}
		return t.readIndexes(ctx, c)
	})
	if err != nil {
		return source.Description{}, fmt.Errorf("read the columns of %s: %w", table, shard.explain(err))
	}
	return t.Describe(), nil
}
