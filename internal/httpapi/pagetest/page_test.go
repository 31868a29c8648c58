package pagetest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/internal/app"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// TestPage plays the page in a browser, a scene after the other.
func TestPage(t *testing.T) {
	t.Parallel()
	urls := serve(t, testall.Pick(
		[]string{"guard", "lost", "hostile", "twenty", "gone"},
		[]string{"healthy", "backlog", "outage", "stopped", "guard", "paused", "large", "many", "twenty", "allWait", "one", "hostile", "gone", "standby", "upgrade", "lost", "token"}))
	urls["real"] = real(t)
	checks := browse(t, "check.js", urls)
	if len(checks) < 2*len(urls) {
		t.Fatalf("only %d checks of %d scenes", len(checks), len(urls))
	}
	for _, c := range checks {
		t.Run(c.Scene+" "+c.Check, func(t *testing.T) {
			if c.Wrong != "" {
				t.Error(c.Wrong)
			}
		})
	}
}

// check is what a script has found out: of a scene, in words, and what was wrong, if anything was.
type check struct{ Scene, Check, Wrong string }

// browse has Chromium play a script of this package.
func browse(t *testing.T, script string, input any) []check {
	t.Helper()
	if os.Getenv("BRIDGE_TEST_REAL") == "" {
		t.Skip("a browser is part of `make test`")
	}
	chromium, err := exec.LookPath("chromium")
	f := testenv.Node("chromium with playwright-core", "node-browser", "internal/httpapi/pagetest/"+script, chromium)
	if f.Missing == nil {
		f.Missing = err
	}
	if f.Input, err = json.Marshal(input); err != nil {
		t.Fatal(err)
	}
	return testenv.JSONLines[check](t, f)
}

// serve serves scenes until the test ends, and returns their addresses.
func serve(t *testing.T, names []string) map[string]string {
	t.Helper()
	all, urls := scenes(), make(map[string]string)
	works := all["healthy"]
	at := httptest.NewUnstartedServer(handler(works, "healthy"))
	works.Peer = httpapi.Peer{Self: true, Member: "a", Addr: at.Listener.Addr().String()}
	at.Start()
	t.Cleanup(at.Close)
	all["standby"].Peer = httpapi.Peer{Member: "a", Name: "a on node-1", Addr: strings.TrimPrefix(at.URL, "http://")}
	former := all["former"]
	earlier := httptest.NewServer(handler(former, "former"))
	t.Cleanup(earlier.Close)
	former.Peer = httpapi.Peer{Self: true, Member: "a", Addr: earlier.Listener.Addr().String()}
	all["upgrade"].Peer = httpapi.Peer{Member: "a", Name: "a on node-1", Addr: earlier.Listener.Addr().String()}
	for _, name := range names {
		if name == "healthy" {
			urls[name] = at.URL
			continue
		}
		server := httptest.NewServer(handler(all[name], name))
		t.Cleanup(server.Close)
		urls[name] = server.URL
	}
	return urls
}

// handler serves a scene, and what a script does to it: /control/lose and find, and asked, which
// tells what the daemon was asked for.
func handler(s *scene, name string) http.Handler {
	var lost atomic.Bool
	pages := httpapi.Handler(s, prometheus.NewRegistry(), httpapi.Access{
		Token: func() (string, error) { return "sesame", nil }, Setting: "BRIDGE_HTTP_TOKEN",
	})
	mux := http.NewServeMux()
	mux.HandleFunc("/control/lose", func(http.ResponseWriter, *http.Request) { lost.Store(true) })
	mux.HandleFunc("/control/find", func(http.ResponseWriter, *http.Request) { lost.Store(false) })
	mux.HandleFunc("/control/asked", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s.Asked())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case lost.Load():
			panic(http.ErrAbortHandler)
		case name == "former" && r.URL.RawQuery != "working=true":
			w.Header().Set("Bridge-Member", "a")
			http.Error(w, `{"error":"unknown parameter"}`, http.StatusBadRequest)
		default:
			if name == "token" {
				r.RemoteAddr = "192.0.2.7:40000" // another host
			}
			pages.ServeHTTP(w, r)
		}
	})
	return mux
}

// real runs a bridge with a table of which one row was changed, and returns its address.
func real(t *testing.T) string {
	t.Helper()
	shop := apptest.NewShop(t)
	cfg := must.Get(config.Load(shop.Env.Environ(), &config.Redactor{}))(t)
	a := must.Get(app.Open(t.Context(), app.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Build: app.Build{Version: "1.4.0"}}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	pages := http.NewServeMux()
	pages.Handle("/", httpapi.Handler(a.Daemon(), a.Metrics(), httpapi.Access{}))
	pages.HandleFunc("/control/delete", func(http.ResponseWriter, *http.Request) { shop.Exec(t, "DELETE FROM orders WHERE id > 20") })
	server := httptest.NewServer(pages)
	t.Cleanup(func() {
		server.Close()
		cancel()
		must.OK(t, errors.Join(<-ended, a.Close()))
	})
	published := func() bool {
		s := a.Daemon().Status().Streams[0].Shards[0]
		return s.Position == 60 && s.State == "running"
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(4 * time.Minute); !published(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("the table is not published: %+v", a.Daemon().Status())
		}
	}
	shop.Exec(t, "UPDATE orders SET total = 7 WHERE id = 3")
	return server.URL
}
