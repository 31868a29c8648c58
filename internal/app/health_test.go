package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
)

func TestReadinessOfWhatDoesNotAnswer(t *testing.T) {
	// Neither heeds its context.
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		answers := make(chan struct{})
		hangs := func(context.Context) error {
			asked.Add(1)
			<-answers
			return nil
		}
		h := health{&App{kept: new(kept), parts: parts{recovery: stream.New(stream.Options{}), faults: outage.New(slog.New(slog.DiscardHandler)), sources: probed(&httpapi.Probe{Ready: hangs})}, sinkProbe: &httpapi.Probe{Ready: hangs}}}
		pages := httpapi.Handler(h, prometheus.NewRegistry(), httpapi.Access{})
		probe := func() (int, string) {
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			body, _ := io.ReadAll(w.Body) // of memory
			return w.Code, string(body)
		}
		for range 20 {
			begun := time.Now()
			code, body := probe()
			if took := time.Since(begun); code != 503 || took > 10*time.Second || !strings.Contains(body, "source:") || !strings.Contains(body, "sink:") {
				t.Fatalf("%d after %s: %s", code, took, body)
			}
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("source and bus were asked %d times, want each once", n)
		}
		close(answers)
		synctest.Wait()
		if code, body := probe(); code != 200 {
			t.Errorf("%d once they answer: %s", code, body)
		}
	})
}

func TestLoopsThatStandStill(t *testing.T) {
	// The clock stands still meanwhile.
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			still time.Duration
			alive bool
		}{
			"a loop with a heartbeat 59 s ago is alive":  {59 * time.Second, true},
			"a loop with a heartbeat 61 s ago is not":    {61 * time.Second, false},
			"a loop with a heartbeat 60 s ago is, still": {60 * time.Second, true},
		} {
			err := heartbeat(shard.Status{Stream: "orders", Shard: "t", Loop: "saver", LastHeartbeat: time.Now().Add(-c.still)})
			if c.alive != (err == nil) || err != nil && !strings.Contains(err.Error(), "the saver of shard t of stream orders") {
				t.Errorf("%s: %v", name, err)
			}
			err = reconciles(reconcile.Status{Stream: "orders", Shard: "t", Trying: time.Now().Add(-c.still - reconcile.TryLimit)})
			if c.alive != (err == nil) || err != nil && !strings.Contains(err.Error(), "the reconcile of shard t of stream orders") {
				t.Errorf("%s, in a reconcile beyond its limit: %v", name, err)
			}
		}
		if err := reconciles(reconcile.Status{}); err != nil {
			t.Errorf("a reconcile that does nothing: %v", err)
		}
	})
}
