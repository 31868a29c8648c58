package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// reconcile runs `bridge reconcile` beside the daemon and returns what it printed; it fails the test unless the command says that all is
// well.
func (d *daemon) reconcile(args ...string) string {
	d.t.Helper()
	status, stdout, stderr := bridge(d.t, d.env, append([]string{"reconcile", "--json"}, args...)...)
	if status != 0 {
		d.t.Errorf("bridge reconcile %s: exit status %d\n%s\n%s", strings.Join(args, " "), status, stdout, stderr)
	}
	return stdout
}

// asks requests a reconcile of a stream with one shard by HTTP, with the parameters of query, waits for its end and returns how it went.
func (d *daemon) asks(stream, query string) reconcileStatus {
	d.t.Helper()
	if status, body := d.post("/api/v1/streams/" + stream + "/reconcile?" + query); status != http.StatusAccepted {
		d.t.Fatalf("a reconcile of %s with %q: %d %s", stream, query, status, body)
	}
	var last reconcileStatus
	eventually(d.t, 3*time.Minute, "the reconcile of "+stream+" has ended", func() bool {
		shards := d.shards(stream)
		if len(shards) != 1 || shards[0].Reconcile == nil {
			return false
		}
		last = *shards[0].Reconcile
		return last.Waiting == 0 && !last.Running
	})
	if last.LastError != "" {
		d.t.Errorf("the reconcile of %s: %s", stream, last.LastError)
	}
	return last
}

// post asks the daemon for something and returns the status of the answer.
func (d *daemon) post(path string) (int, string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.addr+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	var body json.RawMessage
	_ = json.NewDecoder(response.Body).Decode(&body) // a fault shows in what the test expects of the body
	return response.StatusCode, string(body)
}

// metric returns the sum of a counter over all its labels, 0 when the daemon does not answer.
func (d *daemon) metric(name string) float64 {
	_, body := d.get("/metrics")
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
