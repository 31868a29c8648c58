package world

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

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
func (d *Daemon) ReconcileByHTTP(stream, query string) reconcileStatus {
	d.T.Helper()
	if status, body := d.Post("/api/v1/streams/" + stream + "/reconcile?" + query); status != http.StatusAccepted {
		d.T.Fatalf("a reconcile of %s with %q: %d %s", stream, query, status, body)
	}
	var last reconcileStatus
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
