package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bridge/internal/testenv"
)

// soak says that the long forms of the tests are wanted, as `make soak` does: more commits, longer transactions.
var soak = os.Getenv("BRIDGE_TEST_SOAK") != ""

// atOnce is how many of the tests that call Parallel run side by side: they mostly wait.
const atOnce = 16

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			panic(err)
		}
	}
	testenv.Main(m)
}

// env is an environment of the program.
type env map[string]string

// with returns a copy of e with more variables.
func (e env) with(more env) env {
	e = maps.Clone(e)
	maps.Copy(e, more)
	return e
}

// startMark stands in a daemon's log before what each of its processes writes.
const startMark = "-- bridge is started --"

// daemon is one running `bridge run`.
type daemon struct {
	t    testing.TB
	path string
	env  env
	addr string
	log  *lockedBuffer
	cmd  *exec.Cmd
	done chan struct{}
}

// newDaemon prepares a daemon with a checkpoint in a folder of its own; start runs it.
func newDaemon(t testing.TB, path string, e env) *daemon {
	t.Helper()
	d := &daemon{t: t, path: path, log: new(lockedBuffer), addr: fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))}
	d.env = env{
		"BRIDGE_HTTP_ADDR":      d.addr,
		"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(t.TempDir(), "bridge.db"),
		"BRIDGE_LOG_FORMAT":     "text",
	}.with(e)
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("log of bridge:\n%s", d.log.tail(60))
		}
	})
	return d
}

func (d *daemon) start() {
	d.t.Helper()
	d.cmd = exec.Command(d.path, "run")
	d.cmd.Env = nil
	for _, name := range slices.Sorted(maps.Keys(d.env)) {
		d.cmd.Env = append(d.cmd.Env, name+"="+d.env[name])
	}
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	fmt.Fprintln(d.log, startMark)
	// It dies with the test binary, even when that is killed.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd, done, started := d.cmd, make(chan struct{}), make(chan error)
	go func() {
		// Pdeathsig follows the thread that starts the process: this one stays until the process ends.
		runtime.LockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit status is in ProcessState
		}
	}()
	d.done = done
	if err := <-started; err != nil {
		d.t.Fatal(err)
	}
}

// kill ends the daemon with SIGKILL.
func (d *daemon) kill() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill()
	<-d.done
}

// wait waits until the daemon has ended by itself and returns the signal that ended it, -1 where none did.
func (d *daemon) wait() syscall.Signal {
	d.t.Helper()
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		d.t.Fatal("not ended within 30 s")
	}
	return d.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()
}

// killing kills and starts the daemon every few seconds, with a look at it before, until the returned function is called; it runs then.
func (d *daemon) killing(low, high time.Duration, look ...func()) (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	kills := 0
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(rangeOf(low, high)):
				for _, look := range look {
					look()
				}
				d.kill()
				d.start()
				kills++
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		close(end)
		<-done
		d.t.Logf("%s was killed %d times", d.env["BRIDGE_SINK_URL"], kills)
	})
	d.t.Cleanup(stop)
	return stop
}

// term ends the daemon with SIGTERM and returns its exit status and how long it took.
func (d *daemon) term() (status int, took time.Duration) {
	d.t.Helper()
	started := time.Now()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		d.t.Fatal("not ended 30 s after SIGTERM")
	}
	return d.cmd.ProcessState.ExitCode(), time.Since(started)
}

// get returns status and body of one of the daemon's pages; status 0 when it does not answer.
func (d *daemon) get(path string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.addr+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
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

// shardStatus is what the tests need of /api/v1/status.
type shardStatus struct {
	Shard     string
	State     string
	Position  uint64
	LastError string
	Gaps      gapsStatus
	Reconcile *reconcileStatus
}

// reconcileStatus is what a shard says about its reconcile.
type reconcileStatus struct {
	Running                        bool
	Waiting                        int
	Rows, Added, Modified, Deleted uint64
	RowsPerSecond                  float64
	StartedAt, EndedAt             time.Time
	Guard, LastError               string
}

// gapsStatus is what a shard says about the ids that it has not seen.
type gapsStatus struct {
	Hot, Cold, InFlight uint64
	OldestSeconds       float64
	Oldest              []struct {
		First, Last uint64
		Missed      time.Time
	}
}

// shards returns the shards of a stream by /api/v1/status; none while the daemon does not answer.
func (d *daemon) shards(stream string) []shardStatus {
	code, body := d.get("/api/v1/status")
	if code != http.StatusOK {
		return nil
	}
	var status struct {
		Streams []struct {
			Name   string
			Shards []shardStatus
		}
	}
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		d.t.Fatalf("%v: %s", err, body)
	}
	for _, s := range status.Streams {
		if s.Name == stream {
			return s.Shards
		}
	}
	return nil
}

// position returns the position of a stream with one shard.
func (d *daemon) position(stream string) uint64 {
	if shards := d.shards(stream); len(shards) == 1 {
		return shards[0].Position
	}
	return 0
}

// rssAnon returns the daemon's anonymous memory in bytes.
func (d *daemon) rssAnon() (int64, error) { return testenv.RSSAnon(d.cmd.Process.Pid) }

// lockedBuffer is a log that is written and read at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *lockedBuffer) tail(lines int) string {
	all := strings.SplitAfter(b.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// eventually waits until condition holds.
func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-tick.C
	}
}

// pause lets time pass while something runs beside the test.
func pause(d time.Duration) { <-time.After(d) }
