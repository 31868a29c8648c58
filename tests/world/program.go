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

// Binary builds the program once, with the race detector if asked for, and returns its path.
func Binary(t testing.TB, race bool) string {
	t.Helper()
	return pathOf(t, race, programs[race])
}

// Faulty builds the program once with the points, defects, times and clock of package faulty, and
// returns its path.
func Faulty(t testing.TB) string {
	t.Helper()
	return pathOf(t, false, faultyProgram)
}

// BuildFaulty builds the program of Faulty ahead of its first use. Faulty says what has failed.
func BuildFaulty() { _, _ = faultyProgram() }

func pathOf(t testing.TB, race bool, built func() (string, error)) string {
	t.Helper()
	if RaceDetector && !race {
		testall.Require(t, "builds the program without the race detector")
	}
	path, err := built()
	check(t, err)
	return path
}

// The programs, each of which its first call builds.
var (
	programs      = map[bool]func() (string, error){false: building(false, false), true: building(true, false)}
	faultyProgram = building(false, true)
)

// building returns what builds the program into a folder of its own, which is removed after the
// last test.
func building(race, isFaulty bool) func() (path string, err error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "bridge-acceptance-")
		if err != nil {
			return "", err
		}
		testenv.AtExit(func() { os.RemoveAll(dir) })
		path := filepath.Join(dir, "bridge")
		// A test reads the symbols; what debuggers read, half of the linker's time, is left out.
		args := []string{"build", "-trimpath", "-ldflags=-w", "-o", path}
		// Without cgo, as it ships: the allocator of C keeps memory that Go gives back. The race
		// detector needs it; Pebble's store is kept from C by the tag that scripts/test has, too.
		cgo := "CGO_ENABLED=0"
		if race {
			args, cgo = append(args, "-race", "-tags=pebblegozstd"), "CGO_ENABLED=1"
		}
		list := os.Getenv(faulty.ListVariable)
		if isFaulty {
			if list != "" {
				return "", fmt.Errorf("%s: a program has one list", faulty.ListVariable)
			}
			if list, err = faulty.List(Root, dir); err != nil {
				return "", err
			}
		}
		if list != "" {
			args = append(args, "-overlay="+list)
		}
		build := exec.Command("go", append(args, "example.org/bridge/cmd/bridge")...)
		build.Env = append(os.Environ(), cgo)
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the program, race detector %t, faulty %t: %w: %s", race, isFaulty, err, out)
		}
		return path, nil
	})
}
