package testenv

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"example.org/bridge/tests/must"
)

var (
	cleanupMu sync.Mutex
	cleanups  []func()
)

// Main runs the tests of a package and stops the servers that they shared. Call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	cleanupMu.Lock()
	defer cleanupMu.Unlock()
	for _, stop := range cleanups {
		stop()
	}
	os.Exit(code)
}

// AtExit has Main call stop after the last test.
func AtExit(stop func()) {
	cleanupMu.Lock()
	defer cleanupMu.Unlock()
	cleanups = append(cleanups, stop)
}

type shared[S any] struct {
	once   sync.Once
	server S
	err    error
}

// Main stops the server.
func (s *shared[S]) get(t testing.TB, what string, start func() (S, func(), error)) S {
	t.Helper()
	needReal(t)
	s.once.Do(func() {
		var stop func()
		if s.server, stop, s.err = start(); s.err == nil {
			AtExit(stop)
		}
	})
	there(t, what, s.err)
	return s.server
}

// The test may kill it.
func own[S any](t testing.TB, what string, start func() (S, func(), error)) S {
	t.Helper()
	needReal(t)
	s, stop, err := start()
	there(t, what, err)
	t.Cleanup(stop)
	return s
}

// there ends a test that has no server: one that was not fetched is missing, one that does not
// start is a fault.
func there(t testing.TB, what string, err error) {
	t.Helper()
	if errors.Is(err, exec.ErrNotFound) {
		missing(t, what, err)
	}
	must.OK(t, err)
}

func needReal(t testing.TB) {
	t.Helper()
	if os.Getenv("BRIDGE_TEST_REAL") == "" {
		t.Skip("real servers are part of `make test` (BRIDGE_TEST_REAL=1)")
	}
}

func missing(t testing.TB, server string, why error) {
	t.Helper()
	Missing(t, server, fmt.Errorf("%w (scripts/test-deps fetches it)", why))
}

// Missing ends a test that needs something that is not here: it fails with CI=true, else it is
// skipped, and the closing lines of `make test` say so.
func Missing(t testing.TB, what string, why error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no %s: %v", what, why)
	}
	report("SKIPPED", what+": "+why.Error())
	t.Skipf("no %s: %v", what, why)
}

var reported sync.Map

// report adds a line to the file that `make test` prints at its end.
func report(verdict, line string) {
	if _, said := reported.LoadOrStore(line, true); said {
		return
	}
	f, err := os.OpenFile(os.Getenv("BRIDGE_TEST_REPORT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		defer f.Close()
		fmt.Fprintf(f, "%s %s\n", verdict, line)
	}
}

var root = func() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if isFile(filepath.Join(dir, "go.mod")) {
			return dir
		}
	}
	panic("no go.mod above: run tests in the repository")
}()

// Root returns the top of the repository.
func Root() string { return root }

// Cached returns a path below the folder where scripts/test-deps puts what it fetches.
func Cached(below ...string) string {
	dir := cmp.Or(os.Getenv("BRIDGE_TEST_CACHE"), filepath.Join(root, ".cache"))
	return filepath.Join(append([]string{dir}, below...)...)
}
