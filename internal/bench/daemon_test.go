package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bridge/internal/testenv"
)

// env is an environment of the program.
type env map[string]string

// daemon is one running `bridge run`.
type daemon struct {
	t    testing.TB
	addr string
	log  string
	// store is the folder of its checkpoint.
	store string
	// again starts the program again, with what there is of the checkpoint.
	again func() *daemon
	cmd   *exec.Cmd
	done  chan struct{}
	// began is when the process was started.
	began  time.Time
	memory *watch
}

// startDaemon starts the program with a new checkpoint. It ends with end, or with the test.
func startDaemon(t testing.TB, path string, e env) *daemon {
	t.Helper()
	return startDaemonOn(t, path, e, filepath.Join(t.TempDir(), "bridge.db"))
}

// startDaemonOn starts the program with a checkpoint that may be there.
func startDaemonOn(t testing.TB, path string, e env, store string) *daemon {
	t.Helper()
	d := &daemon{t: t, addr: fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)), log: filepath.Join(t.TempDir(), "log"), store: store, done: make(chan struct{})}
	d.again = func() *daemon { return startDaemonOn(t, path, e, store) }
	all := env{
		"BRIDGE_HTTP_ADDR": d.addr, "BRIDGE_CHECKPOINT_URL": "file:" + store, "BRIDGE_LOG_FORMAT": "text",
		// Reconciles are asked for.
		"BRIDGE_RECONCILE_INTERVAL": "24h",
	}
	maps.Copy(all, e)
	out, err := os.Create(d.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	d.cmd = exec.Command(path, "run")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d.cmd.Env = append(d.cmd.Env, name+"="+all[name])
	}
	d.cmd.Stdout, d.cmd.Stderr = out, out
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	d.began = time.Now()
	go func() {
		// Pdeathsig follows the thread that starts the process: this one stays until the process
		// ends.
		runtime.LockOSThread()
		defer close(d.done)
		err := d.cmd.Start()
		started <- err
		if err == nil {
			_ = d.cmd.Wait() // what matters is in the log
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	d.memory = watchMemory(d.cmd.Process.Pid)
	t.Cleanup(func() {
		d.end()
		if t.Failed() {
			t.Logf("the end of the log of bridge:\n%s", d.tail(40))
		}
	})
	return d
}

// end kills the process.
func (d *daemon) end() {
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.done
	d.memory.end()
}

// term ends the process in good order.
func (d *daemon) term() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-d.done:
	case <-time.After(time.Minute):
		d.t.Fatal("bridge has not ended a minute after SIGTERM")
	}
}

func (d *daemon) tail(lines int) string {
	text, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(string(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// alive fails the test when the process has ended.
func (d *daemon) alive() {
	d.t.Helper()
	select {
	case <-d.done:
		d.t.Fatalf("bridge has ended: %s", d.cmd.ProcessState)
	default:
	}
}

// call asks for a page; the status is 0 when nobody answers.
func (d *daemon) call(method, path string) (status int, body []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+d.addr+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		return 0, nil
	}
	return response.StatusCode, body
}

// counters is what the metrics of the process say at a moment.
type counters struct{ mallocs, allocated, records float64 }

// counters reads /metrics, waiting for a process that has just begun.
func (d *daemon) counters() counters {
	d.t.Helper()
	var body []byte
	eventually(d.t, 30*time.Second, "bridge answers", func() bool {
		d.alive()
		status, answer := d.call(http.MethodGet, "/metrics")
		body = answer
		return status == http.StatusOK
	})
	return counters{metric(body, "go_memstats_mallocs_total"), metric(body, "go_memstats_alloc_bytes_total"), metric(body, "bridge_records_total")}
}

// metric sums a metric over its labels.
func metric(body []byte, name string) float64 {
	sum := 0.0
	for line := range strings.Lines(string(body)) {
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

// shardStatus is what matters of a shard in /api/v1/status.
type shardStatus struct {
	State     string
	Position  uint64
	Highest   uint64
	LastPoll  *time.Time
	LastError *string
	Reconcile *struct {
		Running            bool
		Waiting            int
		Rows               int64
		StartedAt, EndedAt *time.Time
		LastError          *string
	}
}

// shards returns all shards; none while the process does not answer.
func (d *daemon) shards() []shardStatus {
	d.t.Helper()
	d.alive()
	code, body := d.call(http.MethodGet, "/api/v1/status")
	if code != http.StatusOK {
		return nil
	}
	var status struct {
		Streams []struct{ Shards []shardStatus }
	}
	if err := json.Unmarshal(body, &status); err != nil {
		d.t.Fatalf("%v: %s", err, body)
	}
	var all []shardStatus
	for _, s := range status.Streams {
		all = append(all, s.Shards...)
	}
	return all
}

// eventually waits until condition holds.
func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-tick.C
	}
}
