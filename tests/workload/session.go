package workload

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"bridge/internal/processlist"
)

// defaultGrace is that of Options and CapabilityOptions.
const defaultGrace = 3 * time.Second

// outlast returns a context that ends grace after ctx has.
func outlast(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		limit := time.AfterFunc(grace, end)
		context.AfterFunc(longer, func() { limit.Stop() })
	})
	return longer, func() { stop(); end() }
}

// execer runs statements: a pool or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// errNotDeleted is returned when a DELETE succeeds and affects another number of rows than it
// should.
var errNotDeleted = errors.New("a DELETE succeeded without deleting its rows")

// deleteRows runs a DELETE of n rows that are there. MariaDB 10.11 answers OK to one that is killed
// before it finds a row.
func deleteRows(ctx context.Context, db execer, n int, statement string, args ...any) error {
	result, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	switch deleted, err := result.RowsAffected(); {
	case err != nil:
		return err
	case deleted != int64(n):
		return errNotDeleted
	}
	return nil
}

// session is a transaction whose COMMIT and ROLLBACK end with a context, too: those of database/sql
// wait for ever where the server stands still.
type session struct {
	*sql.Conn
	ended bool
}

// open begins a transaction; end must follow.
func open(ctx context.Context, db *sql.DB, d Dialect) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{Conn: conn}
	if _, err := conn.ExecContext(ctx, d.begin()); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// errDying is returned for a database in which a session was killed and goes on: what it was at may
// happen yet, though its client has heard the end and no lock may show it.
var errDying = errors.New("a session that was killed has not ended")

// killedEnded returns errDying as long as a session of the database was killed and has not ended,
// or one cannot be read.
func (s *session) killedEnded(ctx context.Context, d Dialect) error {
	if d == SQLite {
		return nil
	}
	all, err := processlist.Read(ctx, s)
	if err != nil {
		return err
	}
	database := ""
	if err := s.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return err
	}
	for _, p := range all {
		if p.Command == "Busy" || p.Command == "Killed" && p.Database == database {
			return errDying
		}
	}
	return nil
}

// commit ends the transaction, and so does rollback; with an error the connection is closed. That
// of a commit leaves open what became of it.
func (s *session) commit(ctx context.Context) error { return s.finish(ctx, "COMMIT") }

func (s *session) rollback(ctx context.Context) error { return s.finish(ctx, "ROLLBACK") }

func (s *session) finish(ctx context.Context, statement string) error {
	_, err := s.ExecContext(ctx, statement)
	s.ended = err == nil
	if err != nil {
		s.end()
	}
	return err
}

// end gives the connection back. One whose transaction is open is closed, whereupon the server
// rolls back.
func (s *session) end() {
	if !s.ended {
		_ = s.Raw(func(any) error { return driver.ErrBadConn }) // says that it is closed
	}
	_ = s.Close() // nothing is left to lose
}
