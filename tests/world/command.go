package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Command runs a command to its end and returns what it printed.
func Command(t testing.TB, e Env, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(Binary(t, RaceDetector), args...)
	cmd.Env = []string{}
	for _, name := range slices.Sorted(maps.Keys(e)) {
		cmd.Env = append(cmd.Env, name+"="+e[name])
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// VerifyReport is what `bridge verify --json` prints.
type VerifyReport struct {
	Good     bool
	Messages int
	Streams  []struct {
		Stream   string
		Events   int
		Repeats  int
		Faults   []VerifyFinding
		Healed   []VerifyFinding
		Unjudged []VerifyFinding
		Repeated []VerifyFinding
	}
	Foreign VerifyFinding
}

type VerifyFinding struct {
	Fault, Reason, Repeat string
	Count                 int
	Examples              []map[string]any
}

// Healed returns the count of a fault that bridge has healed.
func (r VerifyReport) Healed(fault string) (n int) {
	for _, s := range r.Streams {
		for _, f := range s.Healed {
			if f.Fault == fault {
				n += f.Count
			}
		}
	}
	return n
}

// Faults returns the counts of all faults, and of what was not judged behind "not judged ".
func (r VerifyReport) Faults() map[string]int {
	found := make(map[string]int)
	for _, s := range r.Streams {
		for _, f := range s.Faults {
			found[f.Fault] += f.Count
		}
		for _, d := range s.Unjudged {
			found["not judged "+d.Reason] += d.Count
		}
	}
	if r.Foreign.Count > 0 {
		found["foreign"] = r.Foreign.Count
	}
	return found
}

// Verify runs bridge verify and fails the test when its exit status does not fit what it found.
func Verify(t testing.TB, e Env) VerifyReport {
	t.Helper()
	status, stdout, stderr := Command(t, e, "verify", "--json")
	var r VerifyReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	if want := map[bool]int{true: 0, false: 1}[r.Good]; status != want {
		t.Errorf("exit status %d for %+v: %s", status, r, stderr)
	}
	return r
}

// Root is the top of the repository, seen from a package of tests.
var Root = filepath.Join("..", "..")
