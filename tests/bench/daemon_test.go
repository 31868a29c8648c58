package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/tests/testenv"
)

// env is an environment of the program.
type env map[string]string

// daemon is one running `bridge run`.
type daemon struct {
	*process
	addr string
	// store is the folder of its checkpoint.
	store string
	// again starts the program again, with what there is of the checkpoint.
	again func() *daemon
}

// startDaemon starts the program with a new checkpoint. It ends with end, or with the test.
func startDaemon(t testing.TB, path string, e env) *daemon {
	t.Helper()
	return startDaemonOn(t, path, e, filepath.Join(t.TempDir(), "bridge.db"))
}

// startDaemonOn starts the program with a checkpoint that may be there.
func startDaemonOn(t testing.TB, path string, e env, store string) *daemon {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	all := env{
		"BRIDGE_HTTP_ADDR": addr, "BRIDGE_CHECKPOINT_URL": "file:" + store, "BRIDGE_LOG_FORMAT": "text",
		// Reconciles are asked for.
		"BRIDGE_RECONCILE_INTERVAL": "24h",
	}
	maps.Copy(all, e)
	command := exec.Command(path, "run")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		command.Env = append(command.Env, name+"="+all[name])
	}
	return &daemon{
		process: startProcess(t, "bridge", command), addr: addr, store: store,
		again: func() *daemon { return startDaemonOn(t, path, e, store) },
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
type counters struct{ mallocs, allocated, rows float64 }

// counters reads /metrics, waiting for a process that has just begun.
func (d *daemon) counters() counters {
	d.t.Helper()
	var body []byte
	eventually(d.t, 2*time.Minute, "bridge answers", func() bool {
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
	eventuallyAt(t, 20*time.Millisecond, limit, what, condition)
}

// eventuallyAt is eventually with a pause between two looks.
func eventuallyAt(t testing.TB, pause, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-tick.C
	}
}
