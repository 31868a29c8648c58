package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/internal/verify"
	"example.org/bridge/reconcile"
	"example.org/bridge/tests/faulty"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// Main builds the program, if all tests of a package are wanted, and runs them. Call it from
// TestMain.
func Main(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			panic(err)
		}
	}
	// Built before the clock of any test starts, unless most tests are skipped.
	if testall.On() && flag.Lookup("test.list").Value.String() == "" {
		if _, err := programs[RaceDetector](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	testenv.Main(m)
}

// atOnce is how many of the tests that call Parallel run side by side: they mostly wait.
const atOnce = 16

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
	return must.Get(built())(t)
}

var (
	programs      = map[bool]func() (string, error){false: building(false, false), true: building(true, false)}
	faultyProgram = building(false, true)
)

// RaceFlags have the go command build a program with the race detector as scripts/test compiles the
// tests: without it in SQLite, which is C that was translated, and without C in Pebble.
var RaceFlags = []string{"-race", "-tags=pebblegozstd", "-gcflags=modernc.org/sqlite/lib=-race=false", "-gcflags=modernc.org/libc=-race=false"}

// The folder is removed after the last test.
func building(race, isFaulty bool) func() (path string, err error) {
	return sync.OnceValues(func() (path string, err error) {
		dir, err := os.MkdirTemp("", "bridge-acceptance-")
		if err != nil {
			return "", err
		}
		testenv.AtExit(func() { os.RemoveAll(dir) })
		args := []string{"-trimpath"}
		// Without cgo, as it ships: the allocator of C keeps memory that Go gives back. The race
		// detector needs it.
		cgo := "CGO_ENABLED=0"
		if race {
			args, cgo = append(args, RaceFlags...), "CGO_ENABLED=1"
		}
		list := os.Getenv(faulty.ListVariable)
		if isFaulty {
			if list != "" {
				return "", fmt.Errorf("%s: a program has one list", faulty.ListVariable)
			}
			if list, err = faulty.List(testenv.Root(), dir); err != nil {
				return "", err
			}
		}
		if list != "" {
			args = append(args, "-overlay="+list)
		}
		path = filepath.Join(dir, "bridge")
		return path, testenv.Build(path, []string{cgo}, append(args, "example.org/bridge/cmd/bridge")...)
	})
}

// Failpoints is a list of failpoints that a test changes while programs use it.
type Failpoints struct {
	t    testing.TB
	path string
}

func NewFailpoints(t testing.TB) *Failpoints {
	t.Helper()
	f := &Failpoints{t: t, path: filepath.Join(t.TempDir(), "failpoints")}
	f.Set()
	return f
}

// Set replaces the list; programs follow within 50 ms.
func (f *Failpoints) Set(actions ...failpoint.Action) {
	f.t.Helper()
	must.OK(f.t, os.WriteFile(f.path+".new", must.Get(json.Marshal(actions))(f.t), 0o600))
	must.OK(f.t, os.Rename(f.path+".new", f.path))
}

func (f *Failpoints) Env() Env { return Env{failpoint.Variable: f.path} }

// Command runs a command to its end and returns what it printed.
func Command(t testing.TB, e Env, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(Binary(t, RaceDetector), args...)
	cmd.Env = e.list()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// VerifyReport is what `bridge verify --json` prints.
type VerifyReport struct{ verify.Report }

// Healed returns the count of a fault that bridge has healed.
func (r VerifyReport) Healed(fault string) (n int) {
	for _, s := range r.Streams {
		for _, f := range s.Healed {
			if string(f.Fault) == fault {
				n += int(f.Count)
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
			found[string(f.Fault)] += int(f.Count)
		}
		for _, d := range s.Unjudged {
			found["not judged "+string(d.Reason)] += int(d.Count)
		}
	}
	if r.Foreign.Count > 0 {
		found["foreign"] = int(r.Foreign.Count)
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

// Reconcile runs `bridge reconcile` beside the daemon and returns what it printed; it fails the
// test unless the command says that all is well.
func (d *Daemon) Reconcile(args ...string) string {
	d.T.Helper()
	status, stdout, stderr := Command(d.T, d.Env, append([]string{"reconcile", "--json"}, args...)...)
	if status != 0 {
		d.T.Errorf("bridge reconcile %s: exit status %d\n%s\n%s", strings.Join(args, " "), status, stdout, stderr)
	}
	return stdout
}

// ReconcileByHTTP requests a reconcile of a stream with one shard by HTTP, with the parameters of
// query, waits for its end and returns how it went.
func (d *Daemon) ReconcileByHTTP(stream, query string) reconcile.Status {
	d.T.Helper()
	if status, body := d.Post("/api/v1/streams/" + stream + "/reconcile?" + query); status != http.StatusAccepted {
		d.T.Fatalf("a reconcile of %s with %q: %d %s", stream, query, status, body)
	}
	var last reconcile.Status
	Eventually(d.T, 3*time.Minute, "the reconcile of "+stream+" has ended", func() bool {
		if now := d.Shard(stream).Reconcile; now != nil {
			last = *now
			return last.Waiting == 0 && !last.Running
		}
		return false
	})
	if last.LastError != "" {
		d.T.Errorf("the reconcile of %s: %s", stream, last.LastError)
	}
	return last
}

// Post asks the daemon for something and returns the status of the answer.
func (d *Daemon) Post(path string) (status int, body string) {
	d.T.Helper()
	if status, body = d.call(http.MethodPost, path); status == 0 {
		d.T.Fatalf("%s: %s", path, body)
	}
	return status, body
}

// Metric returns the sum of a counter over all its labels, 0 when the daemon does not answer.
func (d *Daemon) Metric(name string) float64 {
	_, body := d.Get("/metrics")
	return SumOf(body, name)
}

// SumOf returns the sum of a metric over all its labels.
func SumOf(body, name string) float64 {
	sum := 0.0
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(rest[strings.LastIndex(rest, " ")+1:], &value); err == nil {
			sum += value
		}
	}
	return sum
}

// AwaitStop waits until the program stands still, as at a failpoint that stops it.
func (d *Daemon) AwaitStop() {
	d.T.Helper()
	Eventually(d.T, time.Minute, "the program stands still", func() bool { return testenv.Stopped(d.Cmd.Process.Pid) })
}

func (d *Daemon) goroutines() string {
	if d.Child == nil {
		return "it was not started"
	}
	before := len(d.Log.String())
	if err := d.Cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err.Error()
	}
	_ = d.Cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-d.Done:
	case <-time.After(10 * time.Second):
		return "it does not end by SIGQUIT"
	}
	return d.Log.String()[before:]
}

// Signal sends a signal to the program: SIGSTOP has it stand still, SIGCONT go on.
func (d *Daemon) Signal(s syscall.Signal) {
	d.T.Helper()
	must.OK(d.T, d.Cmd.Process.Signal(s))
}
