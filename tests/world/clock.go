package world

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"example.org/bridge/tests/faulty"
)

// ClockVariable says by how much the wall clock of a program with wrongNow is wrong: "1h", "-1h",
// or "1h@5s" for from 5 s after the start on.
const ClockVariable = "BRIDGE_TEST_CLOCK"

// wrongNow is added to package time, where the former Now is called rightNow. It leaves the
// monotonic reading as it is, as when the clock of a machine is set.
const wrongNow = `package time

import (
	"sync"
	"syscall"
)

var wrong = sync.OnceValues(func() (by, from Duration) {
	value, _ := syscall.Getenv("` + ClockVariable + `")
	if value == "" {
		return 0, 0
	}
	since := "0s"
	for i := range value {
		if value[i] == '@' {
			value, since = value[:i], value[i+1:]
			break
		}
	}
	by, err := ParseDuration(value)
	from, err2 := ParseDuration(since)
	if err != nil || err2 != nil {
		panic("` + ClockVariable + `: want a time such as 1h or -1h@5s")
	}
	return by, from
})

// Now returns the current local time, wrong by whole seconds.
func Now() Time {
	t := rightNow()
	if by, from := wrong(); t.ext >= int64(from) {
		t.wall += uint64(by/Second) << nsecShift
	}
	return t
}
`

// replaceClock writes package time with wrongNow to dir and returns the list of files that a build
// replaces.
func replaceClock(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	of := filepath.Join(strings.TrimSpace(string(root)), "src/time")
	right := filepath.Join(of, "time.go")
	text, err := os.ReadFile(right)
	if err != nil {
		return "", err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, right, text, 0)
	if err != nil {
		return "", err
	}
	at := files.Position(parsed.Scope.Lookup("Now").Pos()).Offset
	return faulty.Replace(of, dir, map[string][]byte{
		"time.go": slices.Concat(text[:at], []byte("right"), text[at:]), "wrong.go": []byte(wrongNow),
	})
}
