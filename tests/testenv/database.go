package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"example.org/bridge/tests/must"
)

// DatabaseServer is a MariaDB or MySQL server with an administrator's login.
type DatabaseServer struct {
	// Version is what SELECT VERSION() says.
	Version string
	// Addr is the server's host:port.
	Addr string

	admin *mysql.Config
	*Process
}

// run starts a server on the data folder dir/data that fill makes, an empty one where fill is nil.
// stop ends the server and removes its folder.
func (p Product) run(t testing.TB, fill func(dir string) error, args []string) (s *DatabaseServer, stop func(), err error) {
	program, err := p.locate()
	if err != nil {
		return nil, nil, err
	}
	if fill == nil {
		fill = program.initialise
	}
	return tryPorts(p.name, func(dir string) (*DatabaseServer, *Process, error) {
		if !isFolder(filepath.Join(dir, "data")) {
			if err := fill(dir); err != nil {
				return nil, nil, err
			}
		}
		s := program.server(p.name, dir, FreePort(t), args)
		return s, s.Process, nil
	})
}

func (p *program) server(name, dir string, port int, args []string) *DatabaseServer {
	s := &DatabaseServer{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), admin: mysql.NewConfig()}
	s.admin.User, s.admin.Net, s.admin.Addr = "root", "tcp", s.Addr
	command := append(slices.Concat(p.command, []string{"--no-defaults"}, p.options),
		"--datadir="+filepath.Join(dir, "data"), "--tmpdir="+dir,
		"--socket="+filepath.Join(dir, "sock"), "--pid-file="+filepath.Join(dir, "pid"),
		"--bind-address=127.0.0.1", "--port="+strconv.Itoa(port),
		"--innodb-buffer-pool-size=64M", "--key-buffer-size=1M",
		// Commits survive a killed server, not a killed machine. Without a binary log InnoDB shows
		// a commit before its log has it, and a killed server may lose what was read.
		"--innodb-flush-log-at-trx-commit=2", "--log-bin", "--sync-binlog=0",
		"--performance-schema=OFF", "--character-set-server=utf8mb4",
		// Tests share a server, and each bridge has up to 25 connections to it.
		"--max-connections=1000",
	)
	// Tables are made and dropped all the time: without the syncs to disk that no test needs it
	// takes a tenth of the time.
	command = append(command, "--innodb-flush-method=nosync", "--skip-innodb-doublewrite")
	if p.mySQL {
		// The administrator is root@localhost, which skip-name-resolve would not find.
		command = append(command, "--innodb-redo-log-capacity=64M", "--mysqlx=OFF", "--secure-file-priv=")
	} else {
		command = append(command, "--skip-name-resolve", "--sync-frm=OFF", "--innodb-log-file-size=64M", "--aria-pagecache-buffer-size=4M")
	}
	command = slices.Concat(command, runAs(), args)
	s.Process = &Process{
		name: name, args: command, log: filepath.Join(dir, "log"), data: filepath.Join(dir, "data"), ready: s.identify,
	}
	return s
}

// A server runs as root only when told.
func runAs() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// In /usr/sbin, too, which users' PATH often lacks.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		if sbin := "/usr/sbin/" + name; isFile(sbin) {
			return sbin, nil
		}
	}
	return path, err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (s *DatabaseServer) open(db string) (*sql.DB, error) {
	cfg := s.admin.Clone()
	cfg.DBName, cfg.MultiStatements = db, true
	cfg.Logger = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func (s *DatabaseServer) identify(ctx context.Context) error {
	db, err := s.open("")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&s.Version); err != nil {
		return err
	}
	kind := "MySQL "
	if s.IsMariaDB() {
		kind = "MariaDB "
	}
	report("real", kind+s.Version)
	return nil
}

// IsMariaDB reports whether the server is a MariaDB, as its version tells.
func (s *DatabaseServer) IsMariaDB() bool { return strings.Contains(s.Version, "MariaDB") }

// Root returns a connection pool of the administrator without a default database, closed when the
// test ends. It accepts several statements in one call.
func (s *DatabaseServer) Root(t testing.TB) *sql.DB {
	t.Helper()
	return s.Admin(t, "")
}

// Admin is Root with a default database.
func (s *DatabaseServer) Admin(t testing.TB, db string) *sql.DB {
	t.Helper()
	pool := must.Get(s.open(db))(t)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

var databases atomic.Uint64

// NewDatabase creates a database with a name that nobody uses and drops it when the test ends.
func (s *DatabaseServer) NewDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("bridge_test_%d_%d", os.Getpid(), databases.Add(1))
	db := s.Root(t)
	must.Get(db.Exec("CREATE DATABASE " + name + " CHARACTER SET utf8mb4"))(t)
	t.Cleanup(func() {
		// A server that the test has killed takes its databases with it.
		_, _ = db.Exec("DROP DATABASE IF EXISTS " + name)
	})
	return name
}

// DSN returns the address of a database in the form of go-sql-driver/mysql.
func (s *DatabaseServer) DSN(user, pass, db string) string {
	cfg := s.admin.Clone()
	if user != "" {
		cfg.User, cfg.Passwd = user, pass
	}
	cfg.DBName = db
	return cfg.FormatDSN()
}

// URL returns the address of a database in the form of BRIDGE_SOURCE_URL.
func (s *DatabaseServer) URL(user, pass, db string) string {
	if user == "" {
		user, pass = s.admin.User, s.admin.Passwd
	}
	u := url.URL{Scheme: "mysql", User: url.UserPassword(user, pass), Host: s.Addr, Path: "/" + db}
	return u.String()
}

// KillConnections ends every connection of a user (KILL) and returns how many there were.
func (s *DatabaseServer) KillConnections(t testing.TB, user string) int {
	t.Helper()
	return s.kill(t, "KILL %d", func(p Session) bool { return p.User == user })
}

// KillQueries ends every statement that a user's connections are running (KILL QUERY) and returns
// how many there were. The connections stay.
func (s *DatabaseServer) KillQueries(t testing.TB, user string) int {
	t.Helper()
	return s.kill(t, "KILL QUERY %d", func(p Session) bool {
		return p.User == user && (p.Command == "Query" || p.Command == "Execute")
	})
}

// SetPassword gives a user, who may come from any host, another password.
func (s *DatabaseServer) SetPassword(t testing.TB, user, password string) {
	t.Helper()
	s.administer(t, func(ctx context.Context, db *sql.DB) {
		must.Get(db.ExecContext(ctx, fmt.Sprintf("ALTER USER '%s'@'%%' IDENTIFIED BY '%s'", user, password)))(t)
		// MySQL 9.7 accepts the former password from its cache until the next login with the new
		// one.
		if login, opened := sql.Open("mysql", s.DSN(user, password, "")); opened == nil {
			_ = login.PingContext(ctx)
			_ = login.Close()
		}
	})
}

// It returns how many connections it has met.
func (s *DatabaseServer) kill(t testing.TB, statement string, chosen func(Session) bool) (met int) {
	t.Helper()
	s.administer(t, func(ctx context.Context, db *sql.DB) {
		for _, p := range must.Get(Sessions(ctx, db))(t) {
			if !chosen(p) {
				continue
			}
			const noSuchThread = 1094
			var gone *mysql.MySQLError
			if _, err := db.ExecContext(ctx, fmt.Sprintf(statement, p.ID)); !errors.As(err, &gone) || gone.Number != noSuchThread {
				must.OK(t, err)
				met++
			}
		}
	})
	return met
}

func (s *DatabaseServer) administer(t testing.TB, do func(context.Context, *sql.DB)) {
	t.Helper()
	db := must.Get(s.open(""))(t)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	do(ctx, db)
}
