package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"example.org/bridge/tests/faulty"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// Program says how the program is built.
type Program struct {
	race bool
	// Faulty has the points, defects and times of package faulty.
	Faulty bool
	// WrongClock has its wall clock obey ClockVariable.
	WrongClock bool
}

// Binary builds the program once, with the race detector if asked for, and returns its path.
func Binary(t testing.TB, race bool) string {
	t.Helper()
	return Program{race: race}.Build(t)
}

// Faulty builds the program once with the points, defects and times of package faulty, and returns
// its path.
func Faulty(t testing.TB) string {
	t.Helper()
	return Program{Faulty: true}.Build(t)
}

// Build builds the program at its first call and returns the path.
func (p Program) Build(t testing.TB) string {
	t.Helper()
	if RaceDetector && !p.race {
		testall.Require(t, "builds the program without the race detector")
	}
	path, err := p.built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built is Build for callers without a test.
func (p Program) built() (path string, err error) {
	key := fmt.Sprint(p)
	builds.mu.Lock()
	build := builds.made[key]
	if build == nil {
		build = sync.OnceValues(p.compile)
		builds.made[key] = build
	}
	builds.mu.Unlock()
	return build()
}

var builds = struct {
	mu   sync.Mutex
	made map[string]func() (string, error)
}{made: make(map[string]func() (string, error))}

// compile builds the program into a folder of its own, which is removed after the last test.
func (p Program) compile() (path string, err error) {
	dir, err := os.MkdirTemp("", "bridge-acceptance-")
	if err != nil {
		return "", err
	}
	testenv.AtExit(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "bridge")
	// A test reads the symbols; what debuggers read, half of the linker's time, is left out.
	args := []string{"build", "-trimpath", "-ldflags=-w", "-o", path}
	// Without cgo, as it ships: the allocator of C keeps memory that Go gives back. The race
	// detector needs it; Pebble's store is kept from C by the tag that scripts/test has, too.
	cgo := "CGO_ENABLED=0"
	if p.race {
		args, cgo = append(args, "-race", "-tags=pebblegozstd"), "CGO_ENABLED=1"
	}
	list := os.Getenv(faulty.ListVariable)
	switch {
	case list != "" && (p.WrongClock || p.Faulty):
		err = fmt.Errorf("%s: a program has one list", faulty.ListVariable)
	case p.WrongClock:
		list, err = replaceClock(dir)
	case p.Faulty:
		list, err = faulty.List(Root, dir)
	}
	if err != nil {
		return "", err
	}
	if list != "" {
		args = append(args, "-overlay="+list)
	}
	build := exec.Command("go", append(args, "example.org/bridge/cmd/bridge")...)
	build.Env = append(os.Environ(), cgo)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %+v: %w: %s", p, err, out)
	}
	return path, nil
}
