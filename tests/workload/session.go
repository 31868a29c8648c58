package workload

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"

	"example.org/bridge/client/backoff"
	"example.org/bridge/tests/testenv"
)

// grace is how long a statement under way may take once the context of a run has ended.
const grace = 5 * time.Second

type crew struct {
	writers int
	// turns is how many they make in all, 0 as many as it takes until the context ends; rate how
	// many in a second, at most, 0 is no limit.
	turns int
	rate  float64
	// turn makes one. What must not be cut short ends with lasting.
	turn func(ctx, lasting context.Context, writer int) (done bool, err error)
}

// run has the writers make their turns, and returns nil when they have or when ctx ends. A database
// or a table that is away is waited for; an error that says something else ends the run.
func (c crew) run(ctx context.Context) error {
	var mu sync.Mutex
	left, paced, started := c.turns, 0, time.Now()
	reserve := func() (due time.Time, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if c.turns > 0 && left == 0 {
			return due, false
		}
		left--
		if c.rate > 0 {
			due = started.Add(time.Duration(float64(paced) / c.rate * float64(time.Second)))
			paced++
		}
		return due, true
	}
	writers, ctx := errgroup.WithContext(ctx)
	for writer := range c.writers {
		writers.Go(func() error {
			lasting, end := outlast(ctx)
			defer end()
			pause := retries()
			for {
				due, ok := reserve()
				if !ok || backoff.Pause(ctx, time.Until(due)) != nil {
					return nil
				}
				done, err := c.turn(ctx, lasting, writer)
				if !done {
					mu.Lock()
					left++
					mu.Unlock()
				}
				switch {
				case ctx.Err() != nil && !errors.Is(err, errNeither):
					return nil
				case err == nil:
					pause.Reset()
				case !isAway(err):
					return fmt.Errorf("writer %d: %w", writer, err)
				default:
					if pause.Wait(ctx) != nil {
						return nil
					}
				}
			}
		})
	}
	return writers.Wait()
}

func retries() backoff.Backoff {
	return backoff.Backoff{First: 10 * time.Millisecond, Max: 500 * time.Millisecond}
}

// By the time grace.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		limit := time.AfterFunc(grace, end)
		context.AfterFunc(longer, func() { limit.Stop() })
	})
	return longer, func() { stop(); end() }
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// deleteRows runs a DELETE of n rows that are there. MariaDB 10.11 answers OK to one that is killed
// before it finds a row.
func deleteRows(ctx context.Context, db execer, n int, statement string, args ...any) error {
	result, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	if deleted, err := result.RowsAffected(); err != nil || deleted == int64(n) {
		return err
	}
	return errNotDeleted
}

// session is a transaction whose COMMIT and ROLLBACK end with a context, too: those of database/sql
// wait for ever where the server stands still.
type session struct {
	*sql.Conn
	ended bool
}

func open(ctx context.Context, db *sql.DB, d Dialect) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{Conn: conn}
	if _, err := conn.ExecContext(ctx, map[Dialect]string{MySQL: "START TRANSACTION", SQLite: "BEGIN IMMEDIATE"}[d]); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// finish runs COMMIT or ROLLBACK. With an error the connection is closed; that of a COMMIT leaves
// open what became of it.
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

// lookup calls scan with each row of a query, once the database answers, also those that it has
// read before it got lost. Transactions that have not ended are waited for: the one that is looked
// for may be among them.
func lookup(ctx context.Context, db *sql.DB, d Dialect, scan func(*sql.Rows) error, query string, args ...any) error {
	if d == MySQL {
		query += " FOR UPDATE"
	}
	pause := retries()
	return pause.Retry(ctx, func() (err error) {
		tx, err := open(ctx, db, d)
		if err != nil {
			return err
		}
		defer tx.end()
		if d == MySQL {
			if err := tx.killedEnded(ctx); err != nil {
				return err
			}
		}
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}, isAway)
}

// killedEnded returns errDying as long as a session of the database was killed and has not ended,
// or one cannot be read: what it was at may happen yet, though its client has heard the end and no
// lock may show it.
func (s *session) killedEnded(ctx context.Context) error {
	all, err := testenv.Sessions(ctx, s)
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

var (
	errDying      = errors.New("a session that was killed has not ended")
	errNotDeleted = errors.New("a DELETE succeeded without deleting its rows")
	errNeither    = errors.New("the table holds neither what it held nor what the change was to make of it")
)

// passing are the errors of a MySQL server after which a transaction is tried again.
var passing = []uint16{
	deadlock, lockWait,
	// The server starts, ends, cannot be written to, or has too many connections; what lies between
	// has lost it.
	1040, 1053, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1290, 1836, 2006, 2013,
	// A connection or a statement was killed, 1467 while it took an id, or ran for too long.
	1317, 1467, 1927, 1969, 3024, 3169, 4031,
	// The table is away, or was changed meanwhile.
	1146, 1932, 1412, 1020,
}

// Error numbers of MySQL, and primary result codes of SQLite: busy is that of a file that another
// connection writes to.
const (
	deadlock     = 1213
	lockWait     = 1205
	duplicateKey = 1062
	busy         = 5
	constraint   = 19
)

// number returns what MySQL or SQLite says is wrong, 0 where it has not answered.
func number(err error) (mySQL uint16, sqlite int) {
	var server *mysql.MySQLError
	var coded interface{ Code() int }
	switch {
	case errors.As(err, &server):
		return server.Number, 0
	case errors.As(err, &coded):
		return 0, coded.Code() & 0xff
	}
	return 0, 0
}

func isConflict(err error) bool {
	n, _ := number(err)
	return n == deadlock || n == lockWait
}

func isAway(err error) bool {
	if n, code := number(err); n > 0 || code > 0 {
		return slices.Contains(passing, n) || code == busy
	}
	var network net.Error
	return errors.As(err, &network) || slices.ContainsFunc(cut, func(how error) bool { return errors.Is(err, how) })
}

// cut is what ends a connection or a statement in the middle, and what follows such an end.
var cut = []error{driver.ErrBadConn, mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync, io.EOF, io.ErrUnexpectedEOF, errDying, errNotDeleted}

func insertInto(verb, table string, names []string, n int) string {
	row := "(" + placeholders(len(names)) + "), "
	return verb + " INTO " + table + " (" + strings.Join(names, ", ") + ") VALUES " + strings.TrimSuffix(strings.Repeat(row, n), ", ")
}

func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }
