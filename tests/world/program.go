package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"bridge/internal/testall"
	"bridge/internal/testenv"
)

// Program says how the program is built.
type Program struct {
	race bool
	Tags []string
	// WrongClock has its wall clock obey ClockVariable.
	WrongClock bool
}

// Binary builds the program once for each choice, with the race detector if asked for and with
// build tags, and returns its path.
func Binary(t testing.TB, race bool, tags ...string) string {
	t.Helper()
	if RaceDetector && !race {
		testall.Require(t, "builds the program without the race detector")
	}
	return Program{race: race, Tags: tags}.Build(t)
}

// Build builds the program at its first call and returns the path.
func (p Program) Build(t testing.TB) string {
	t.Helper()
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
	args, tags := []string{"build", "-trimpath", "-ldflags=-w", "-o", path}, p.Tags
	// Without cgo, as it ships: the allocator of C keeps memory that Go gives back. The race
	// detector needs it; Pebble's store is kept from C by the tag that scripts/test has, too.
	cgo := "CGO_ENABLED=0"
	if p.race {
		args, tags, cgo = append(args, "-race"), slices.Concat(tags, []string{"pebblegozstd"}), "CGO_ENABLED=1"
	}
	args = append(args, "-tags="+strings.Join(tags, ","))
	if p.WrongClock {
		list, err := replaceClock(dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay="+list)
	}
	build := exec.Command("go", append(args, "bridge/cmd/bridge")...)
	build.Env = append(os.Environ(), cgo)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %+v: %w: %s", p, err, out)
	}
	return path, nil
}
