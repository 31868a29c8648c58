package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"example.org/bridge/internal/processlist"
)

// KillConnections ends every connection of a user (KILL) and returns how many there were.
func (s *DatabaseServer) KillConnections(t testing.TB, user string) int {
	t.Helper()
	return s.kill(t, "KILL %d", func(p processlist.Process) bool { return p.User == user })
}

// KillQueries ends every statement that a user's connections are running (KILL QUERY) and returns
// how many there were. The connections stay.
func (s *DatabaseServer) KillQueries(t testing.TB, user string) int {
	t.Helper()
	return s.kill(t, "KILL QUERY %d", func(p processlist.Process) bool {
		return p.User == user && (p.Command == "Query" || p.Command == "Execute")
	})
}

// SetPassword gives a user another password, for every host that the user may come from.
func (s *DatabaseServer) SetPassword(t testing.TB, user, password string) {
	t.Helper()
	s.administer(t, func(ctx context.Context, db *sql.DB) error {
		hosts, err := column(ctx, db, "SELECT Host FROM mysql.user WHERE User = ?", user)
		if err == nil && len(hosts) == 0 {
			err = fmt.Errorf("unknown user %s", user)
		}
		for _, host := range hosts {
			_, altered := db.ExecContext(ctx, fmt.Sprintf("ALTER USER %s@%s IDENTIFIED BY %s", quote(user), quote(host), quote(password)))
			err = errors.Join(err, altered)
		}
		// MySQL 9.7 accepts the former password from its cache until the next login with the new
		// one.
		if login, opened := sql.Open("mysql", s.DSN(user, password, "")); opened == nil {
			_ = login.PingContext(ctx)
			_ = login.Close()
		}
		return err
	})
}

// kill applies a statement to each connection that is chosen, and returns how many it has met.
func (s *DatabaseServer) kill(t testing.TB, statement string, chosen func(processlist.Process) bool) (met int) {
	t.Helper()
	s.administer(t, func(ctx context.Context, db *sql.DB) error {
		all, err := processlist.Read(ctx, db)
		for _, p := range all {
			if !chosen(p) {
				continue
			}
			const noSuchThread = 1094
			var gone *mysql.MySQLError
			switch _, failed := db.ExecContext(ctx, fmt.Sprintf(statement, p.ID)); {
			case failed == nil:
				met++
			case !errors.As(failed, &gone) || gone.Number != noSuchThread:
				err = errors.Join(err, failed)
			}
		}
		return err
	})
	return met
}

// administer runs do with an administrator's connections and twenty seconds.
func (s *DatabaseServer) administer(t testing.TB, do func(context.Context, *sql.DB) error) {
	t.Helper()
	db, err := s.open("")
	check(t, err)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	check(t, do(ctx, db))
}

// column returns the one column of a query.
func column(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// quote makes a string of SQL.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
}
