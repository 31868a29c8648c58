package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MariaDBServer is a MariaDB or MySQL server with an administrator's login. Its methods are for one goroutine at a time,
// except Root, NewDatabase, DSN and URL.
type MariaDBServer struct {
	// Version is what SELECT VERSION() says.
	Version string
	// Addr is the server's host:port.
	Addr string

	admin *mysql.Config
	// server is nil for a server that ran already.
	server *process
}

var sharedMariaDB struct {
	once   sync.Once
	server *MariaDBServer
	err    error
}

// MariaDB returns the server that all tests of the binary share. The first call starts it, which takes about two
// seconds, and Main stops it. With BRIDGE_TEST_MYSQL_DSN (in the form of go-sql-driver/mysql, login of an administrator) it is the
// server there.
func MariaDB(t testing.TB) *MariaDBServer {
	t.Helper()
	needReal(t)
	shared := &sharedMariaDB
	shared.once.Do(func() {
		if dsn := os.Getenv("BRIDGE_TEST_MYSQL_DSN"); dsn != "" {
			shared.server, shared.err = existingMariaDB(dsn)
			return
		}
		var stop func()
		if shared.server, stop, shared.err = newMariaDB(t, nil); shared.err == nil {
			AtExit(stop)
		}
	})
	checkMariaDB(t, shared.err)
	return shared.server
}

// StartMariaDB starts a server that belongs to the test, so that the test may kill it; it is gone when the test ends. args
// are added to its command line. It is a private server even where BRIDGE_TEST_MYSQL_DSN is set, because a server
// that serves others cannot be killed.
func StartMariaDB(t testing.TB, args ...string) *MariaDBServer {
	t.Helper()
	needReal(t)
	s, stop, err := newMariaDB(t, args)
	checkMariaDB(t, err)
	t.Cleanup(stop)
	return s
}

// checkMariaDB ends a test that has no server: a server that is not installed is missing, one that does not start is a fault.
func checkMariaDB(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		missing(t, "MariaDB", err)
	case err != nil:
		t.Fatal(err)
	}
}

func existingMariaDB(dsn string) (*MariaDBServer, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("BRIDGE_TEST_MYSQL_DSN: %w", err)
	}
	s := &MariaDBServer{Addr: cfg.Addr, admin: cfg}
	return s, s.greet("at " + cfg.Addr)
}

// newMariaDB initialises a data folder and starts a server on it.
func newMariaDB(t testing.TB, args []string) (*MariaDBServer, func(), error) {
	install, err := lookPath("mariadb-install-db")
	if err != nil {
		return nil, nil, err
	}
	daemon, err := lookPath("mariadbd")
	if err != nil {
		return nil, nil, err
	}
	// Not t.TempDir: the path of a socket has room for about 100 bytes.
	dir, err := os.MkdirTemp("", "bridge-mariadb-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	if err := initMariaDB(install, dir); err != nil {
		remove()
		return nil, nil, err
	}
	// Another process may take the free port first.
	for range 3 {
		s := privateMariaDB(daemon, dir, FreePort(t), args)
		if err = s.server.start(); err == nil {
			err = s.greet("private")
		}
		if err == nil {
			return s, func() { s.server.kill(); remove() }, nil
		}
		s.server.kill()
	}
	remove()
	return nil, nil, err
}

func initMariaDB(install, dir string) error {
	args := []string{
		"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=16M",
	}
	cmd := exec.Command(install, append(args, runAs()...)...)
	// In a shared folder one server that starts removes the temporary tables of another.
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	return nil
}

func privateMariaDB(daemon, dir string, port int, args []string) *MariaDBServer {
	s := &MariaDBServer{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), admin: mysql.NewConfig()}
	s.admin.User, s.admin.Net, s.admin.Addr = "root", "tcp", s.Addr
	command := []string{
		daemon, "--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--tmpdir=" + dir,
		"--socket=" + filepath.Join(dir, "sock"), "--pid-file=" + filepath.Join(dir, "pid"),
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port), "--skip-name-resolve",
		"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=64M", "--key-buffer-size=1M", "--aria-pagecache-buffer-size=4M",
		// Commits survive a killed server, not a killed machine.
		"--innodb-flush-log-at-trx-commit=2",
		"--performance-schema=OFF", "--character-set-server=utf8mb4",
	}
	command = append(append(command, runAs()...), args...)
	s.server = &process{
		name: "mariadbd", args: command, log: filepath.Join(dir, "log"), wait: time.Minute,
		ready: func(ctx context.Context) error { return s.ping(ctx) }, data: filepath.Join(dir, "data"),
	}
	return s
}

// runAs lets a server run as root, which it does only when told.
func runAs() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// lookPath also looks where users have no PATH to.
func lookPath(name string) (string, error) {
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

// Kill ends a server of StartMariaDB at once, as a crash does. Its data stays.
func (s *MariaDBServer) Kill() { s.server.kill() }

// Stop ends a server of StartMariaDB in good order. Its data stays.
func (s *MariaDBServer) Stop() { s.server.stop() }

// Pause makes a server of StartMariaDB stand still, as a host without CPU time does: connections stay open, nothing answers.
func (s *MariaDBServer) Pause() { s.server.pause() }

// Resume ends Pause.
func (s *MariaDBServer) Resume() { s.server.signal(syscall.SIGCONT) }

// Start starts a killed or stopped server on its data and port and blocks until it answers.
func (s *MariaDBServer) Start(t testing.TB) {
	t.Helper()
	if err := s.server.start(); err != nil {
		t.Fatal(err)
	}
}

// Restart kills the server and starts it on its data and port.
func (s *MariaDBServer) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	s.Start(t)
}
