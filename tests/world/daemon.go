package world

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/shard"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// Soak says that the long forms of the tests are wanted, as `make soak` does: more commits, longer
// transactions.
var Soak = os.Getenv("BRIDGE_TEST_SOAK") != ""

type Env map[string]string

func (e Env) With(more Env) Env {
	e = maps.Clone(e)
	maps.Copy(e, more)
	return e
}

// Nothing of the test's own environment.
func (e Env) list() []string {
	list := []string{}
	for name, value := range e {
		list = append(list, name+"="+value)
	}
	return list
}

// WithoutOwn returns a copy of e without what two processes cannot share: the address and the
// checkpoint.
func (e Env) WithoutOwn() Env {
	e = maps.Clone(e)
	delete(e, "BRIDGE_HTTP_ADDR")
	delete(e, "BRIDGE_CHECKPOINT_URL")
	return e
}

// StartLine stands in a daemon's log before what each of its processes writes.
const StartLine = "-- bridge is started --"

// Daemon is one running `bridge run`.
type Daemon struct {
	T    testing.TB
	Path string
	Env  Env
	addr string
	Log  *Log
	// Child is nil before Start.
	*testenv.Child
}

// NewDaemon prepares a daemon with a checkpoint in a folder of its own; start runs it.
func NewDaemon(t testing.TB, path string, e Env) *Daemon {
	t.Helper()
	d := &Daemon{T: t, Path: path, Log: new(Log), addr: fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))}
	d.Env = Env{
		"BRIDGE_HTTP_ADDR":      d.addr,
		"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(t.TempDir(), "bridge.db"),
		"BRIDGE_LOG_FORMAT":     "text",
	}.With(e)
	t.Cleanup(func() {
		if t.Failed() {
			_, ready := d.Get("/readyz")
			t.Logf("readiness of bridge: %s", ready)
			t.Logf("log of bridge:\n%s", d.Log.Tail(60))
			t.Logf("its goroutines:\n%s", d.goroutines())
		}
		d.Kill()
	})
	return d
}

func (d *Daemon) Start() {
	d.T.Helper()
	cmd := exec.Command(d.Path, "run")
	cmd.Env = d.Env.list()
	cmd.Stdout, cmd.Stderr = d.Log, d.Log
	fmt.Fprintln(d.Log, StartLine)
	d.Child = must.Get(testenv.Spawn(cmd))(d.T)
}

// Checkpoint returns the folder of the checkpoint, of a share that of its own.
func (d *Daemon) Checkpoint() string {
	folder := d.Env["BRIDGE_CHECKPOINT_URL"]
	folder = strings.TrimPrefix(strings.TrimPrefix(folder, "file:"), "bus://")
	return filepath.Join(folder, strings.ReplaceAll(d.Env["BRIDGE_SHARE"], "/", "-of-"))
}

// LoseCheckpoint removes the checkpoint of a daemon that does not run.
func (d *Daemon) LoseCheckpoint() {
	d.T.Helper()
	must.OK(d.T, os.RemoveAll(d.Checkpoint()))
}

// CopyCheckpoint returns a copy of the checkpoint of a daemon that does not run, in a folder that
// is removed when the test ends.
func (d *Daemon) CopyCheckpoint() (copied string) {
	d.T.Helper()
	copied = d.T.TempDir()
	must.OK(d.T, os.CopyFS(copied, os.DirFS(d.Checkpoint())))
	return copied
}

// PutCheckpoint has a daemon that does not run begin with a copy.
func (d *Daemon) PutCheckpoint(copied string) {
	d.T.Helper()
	d.LoseCheckpoint()
	must.OK(d.T, os.CopyFS(d.Checkpoint(), os.DirFS(copied)))
}

// Wait waits until the daemon has ended and returns its exit status, -1 where a signal ended it.
func (d *Daemon) Wait() (status int) {
	d.T.Helper()
	select {
	case <-d.Done:
	case <-time.After(busy * time.Minute):
		d.T.Fatalf("not ended within %s", busy*time.Minute)
	}
	return d.Cmd.ProcessState.ExitCode()
}

// WaitKilled waits until the daemon has ended, and fails the test unless that was by SIGKILL.
func (d *Daemon) WaitKilled() {
	d.T.Helper()
	if d.Wait(); d.Cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		d.T.Fatalf("the program has ended by itself: %v", d.Cmd.ProcessState)
	}
}

// Term ends the daemon with SIGTERM and returns its exit status and how long it took.
func (d *Daemon) Term() (status int, took time.Duration) {
	d.T.Helper()
	started := time.Now()
	d.Signal(syscall.SIGTERM)
	return d.Wait(), time.Since(started)
}

// Ends ends the daemon with SIGTERM, and fails the test unless its exit status is 0.
func (d *Daemon) Ends() {
	d.T.Helper()
	if status, took := d.Term(); status != 0 {
		d.T.Errorf("exit status %d after %s", status, took)
	}
}

// Get returns status and body of one of the daemon's pages; status 0 when it does not answer.
func (d *Daemon) Get(path string) (int, string) { return d.call(http.MethodGet, path) }

func (d *Daemon) call(method, path string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	request := must.Get(http.NewRequestWithContext(ctx, method, "http://"+d.addr+path, nil))(d.T)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// Stream returns a stream by /api/v1/status; false while the daemon does not answer.
func (d *Daemon) Stream(name string) (s httpapi.StreamStatus, found bool) {
	var status httpapi.Status
	d.Status("", &status)
	i := slices.IndexFunc(status.Streams, func(s httpapi.StreamStatus) bool { return s.Name == name })
	if i >= 0 {
		s, found = status.Streams[i], true
	}
	s.List = cmp.Or(s.List, new(shard.RepublishStatus))
	for i := range s.Shards {
		s.Shards[i].Republish = cmp.Or(s.Shards[i].Republish, new(shard.RepublishStatus))
	}
	return s, found
}

// Status reads /api/v1/status with a query into a value, which stays as it is while the daemon does
// not answer.
func (d *Daemon) Status(query string, into any) {
	if code, body := d.Get("/api/v1/status?" + query); code == http.StatusOK {
		must.OK(d.T, json.Unmarshal([]byte(body), into))
	}
}

// Running returns how many tables run, 0 while the daemon does not answer.
func (d *Daemon) Running() int {
	status := httpapi.Status{Totals: new(httpapi.Totals)}
	d.Status("limit=0", &status)
	return status.Totals.States[shard.Running]
}

// Shards returns the shards of a stream by /api/v1/status; none while the daemon does not answer.
func (d *Daemon) Shards(stream string) []shard.Status {
	s, _ := d.Stream(stream)
	return s.Shards
}

// Shard returns the one shard of a stream, without a state while the daemon does not answer.
func (d *Daemon) Shard(stream string) shard.Status {
	if shards := d.Shards(stream); len(shards) == 1 {
		return shards[0]
	}
	return shard.Status{Republish: new(shard.RepublishStatus)}
}

func (d *Daemon) Position(stream string) uint64 { return d.Shard(stream).Position }

func (d *Daemon) RSSAnon() (int64, error) { return testenv.RSSAnon(d.Cmd.Process.Pid) }

// Log is a log that is written and read at the same time.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *Log) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Log) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *Log) Lines() int { return strings.Count(b.String(), "\n") }

func (b *Log) Tail(lines int) string {
	all := strings.SplitAfter(strings.TrimSuffix(b.String(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// busy is how many times longer than on an idle machine all may take: a limit finds what never
// comes, and says nothing about speed.
const busy = 4

// Eventually waits until condition holds. limit is ample on a machine that does nothing else.
func Eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	Until(t, limit, what, func() any {
		if condition() {
			return nil
		}
		return "it is not so"
	})
}

// Until waits as Eventually does, until a look finds nothing wrong, as must.Until says.
func Until(t testing.TB, limit time.Duration, what string, look func() (wrong any)) {
	t.Helper()
	must.Until(t, busy*limit, what, look)
}

// beside runs do until stop is called or the test ends.
func beside(t testing.TB, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { do(ctx) })
	stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	t.Cleanup(stop)
	return stop
}

// Every calls do again and again, with a pause in between, until stop is called or the test ends.
func Every(t testing.TB, pause time.Duration, do func()) (stop func()) {
	return beside(t, func(ctx context.Context) {
		for do(); backoff.Pause(ctx, pause) == nil; do() {
		}
	})
}

// Pause lets time pass while something runs beside the test.
func Pause(d time.Duration) { <-time.After(d) }

// AwaitUnready waits until /readyz says 503 with a reason that has all of words.
func AwaitUnready(t testing.TB, d *Daemon, words ...string) (body string) {
	t.Helper()
	Until(t, time.Minute, fmt.Sprintf("/readyz 503 with a reason that has %q", words), func() any {
		code := 0
		if code, body = d.Get("/readyz"); code == http.StatusServiceUnavailable && hasAll(body, append(words, "reason")) {
			return nil
		}
		return fmt.Sprint(code, body)
	})
	return body
}

// AwaitStopped waits until the one shard of a stream has stopped, and returns what it says. It
// fails the test unless the error has all of words.
func AwaitStopped(t testing.TB, d *Daemon, stream string, words ...string) (s shard.Status) {
	t.Helper()
	Eventually(t, time.Minute, stream+" has stopped", func() bool {
		s = d.Shard(stream)
		return s.State == shard.Stopped
	})
	if !hasAll(string(s.LastError), words) {
		t.Errorf("%s has stopped, and its error lacks some of %q: %s", stream, words, s.LastError)
	}
	return s
}

func hasAll(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

func AwaitReady(t testing.TB, d *Daemon) {
	t.Helper()
	Eventually(t, time.Minute, "/readyz 200", d.isReady)
}

func (d *Daemon) isReady() bool { code, _ := d.Get("/readyz"); return code == http.StatusOK }

func Between(low, high time.Duration) time.Duration { return low + rand.N(high-low) }
