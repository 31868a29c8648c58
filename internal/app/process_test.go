package app

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// reloading is a process whose configuration is env at each reload.
type reloading struct {
	*Process
	log *sharedLog
	// end ends it, before the test does.
	end func()
}

func newReloading(t *testing.T, s *apptest.Shop) *reloading {
	t.Helper()
	r := &reloading{log: new(sharedLog)}
	r.Process = must.Get(OpenProcess(t.Context(), ProcessOptions{
		Config: load(t, s.Env), Logger: textLogger(r.log), Build: build,
		Load: func() (*config.Config, error) { return config.Load(s.Env.Environ(), &config.Redactor{}) },
	}))(t)
	r.end = sync.OnceFunc(start(t, r.Process))
	t.Cleanup(r.end)
	return r
}

// published waits until a stream has published so many rows of this process.
func (r *reloading) published(t *testing.T, stream string, position uint64) {
	t.Helper()
	until(t, stream+" is published", func() any { return r.log }, func() bool {
		for _, s := range r.Daemon().Status().Streams {
			if s.Name == stream && len(s.Shards) == 1 && s.Shards[0].Position == position {
				return true
			}
		}
		return false
	})
}

// TestAReload: streams are added, changed and removed, and one that comes back goes on from its
// progress. Neither /livez nor /readyz notices.
func TestAReload(t *testing.T) {
	t.Parallel()
	s := apptest.NewShop(t)
	s.Create(t, "bills", 2)
	r := newReloading(t, s)
	r.published(t, "orders", 60)
	client := httpapi.Client{Addr: s.Env["BRIDGE_HTTP_ADDR"], Setting: "HTTP"}
	until(t, "it is ready", func() any { return r.log }, func() bool { _, ok, err := client.Ready(t.Context()); return ok && err == nil })
	ctx, end := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		for {
			for _, ask := range []func(context.Context) (httpapi.Readiness, bool, error){client.Ready, client.Live} {
				if answer, ok, err := ask(ctx); ctx.Err() != nil {
					asked <- nil
					return
				} else if err != nil || !ok {
					asked <- errors.Join(err, errors.New(answer.Status))
					return
				}
			}
		}
	}()
	orders, bills := s.Env, configtest.Env{"BRIDGE_STREAMS": "bills", "BRIDGE_STREAM_BILLS_TABLE": "bills", "BRIDGE_STREAM_BILLS_KIND": "release"}
	s.Env = maps.Clone(orders)
	maps.Copy(s.Env, bills)
	s.Env["BRIDGE_STREAMS"] = "bills,orders"
	done, err := client.Reload(t.Context())
	if err != nil || strings.Join(done.Streams, " ") != "bills orders" || done.Shards != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	r.published(t, "bills", 2)
	r.published(t, "orders", 60)

	maps.DeleteFunc(s.Env, func(name, _ string) bool { return strings.HasPrefix(name, "BRIDGE_STREAM_ORDERS_") })
	s.Env["BRIDGE_STREAMS"] = "bills"
	for range 2 {
		if done, err := client.Reload(t.Context()); err != nil || done.Shards != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	if n := strings.Count(r.log.String(), "finding about the checkpoint"); n != 1 {
		t.Errorf("the stream that is not configured any more is in the log %d times", n)
	}
	s.Exec(t, "INSERT INTO orders (name, total) VALUES ('o61', 61)")
	if got := r.Daemon().Status().Streams; len(got) != 1 || got[0].Name != "bills" {
		t.Errorf("without orders: %+v", got)
	}
	s.Env = orders
	must.Get(client.Reload(t.Context()))(t)
	r.published(t, "orders", 61)
	if rows := r.Daemon().Status().Streams[0].Shards[0].Published.Rows; rows != 1 {
		t.Errorf("%d rows were published by the stream that came back", rows)
	}
	end()
	if err := <-asked; err != nil {
		t.Error(err)
	}
}

// TestAReloadOfLimits: a rate shows in the status as what holds a backlog back, and a reload that
// changes limits alone has them hold at once. The streams go on, and no other app begins.
func TestAReloadOfLimits(t *testing.T) {
	t.Parallel()
	s := apptest.NewShop(t)
	s.Env["BRIDGE_STREAM_ORDERS_RATE"] = "2"
	r := newReloading(t, s)
	app := r.now.Load()
	until(t, "the rate holds it back", func() any { return r.log }, func() bool {
		b := r.Daemon().Status().Streams[0].Shards[0].Backlog
		return b != nil && b.Limit == shard.LimitRate
	})
	if position := r.Daemon().Status().Streams[0].Shards[0].Position; position == 0 || position >= 60 {
		t.Errorf("the position is %d", position)
	}
	delete(s.Env, "BRIDGE_STREAM_ORDERS_RATE")
	s.Env["BRIDGE_SOURCE_CONNECTIONS"] = "5"
	client := httpapi.Client{Addr: s.Env["BRIDGE_HTTP_ADDR"], Setting: "HTTP"}
	if done, err := client.Reload(t.Context()); err != nil || done.Shards != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	r.published(t, "orders", 60)
	if r.now.Load() != app {
		t.Error("another app was begun for limits")
	}
	if _, tails := connsOf(r.latest, &r.latest.Sources[0]); tails != 1 {
		t.Errorf("%d tails read at once", tails)
	}
	s.Env["BRIDGE_SOURCE_CONNECTIONS"] = "4"
	_, err := client.Reload(t.Context())
	if err == nil || !strings.Contains(err.Error(), "BRIDGE_SOURCE_CONNECTIONS") || !strings.Contains(err.Error(), "5 or more") {
		t.Errorf("too few connections: %v", err)
	}

	// A reload of something else keeps them.
	s.Env["BRIDGE_SOURCE_CONNECTIONS"], s.Env["BRIDGE_POLL_INTERVAL"] = "6", "11ms"
	must.Get(client.Reload(t.Context()))(t)
	if r.now.Load() == app {
		t.Error("the app goes on with the former poll interval")
	}
	s.Exec(t, "INSERT INTO orders (name, total) VALUES ('o61', 61)")
	r.published(t, "orders", 61)
}

// TestAReloadOfLimitsInAShare: a stream has its own rate, though one of another share stands before
// it.
func TestAReloadOfLimitsInAShare(t *testing.T) {
	t.Parallel()
	env := configtest.Env{
		"BRIDGE_STREAMS": "b,a", "BRIDGE_STREAM_B_TABLE": "b", "BRIDGE_STREAM_B_KIND": "release", "BRIDGE_STREAM_B_RATE": "1",
		"BRIDGE_STREAM_A_TABLE": "a", "BRIDGE_STREAM_A_KIND": "release", "BRIDGE_STREAM_A_RATE": "2", "BRIDGE_CHECKPOINT_URL": "file:" + t.TempDir(),
	}
	h := emptyHousehold(t, env)
	load := func() {
		h.configure(env)
		h.cfg.Share.Share, h.cfg.HTTPAddr = share.Share{Index: 1, Number: 2}, "127.0.0.1:0"
	}
	load()
	for _, s := range h.cfg.Streams {
		h.tables[s.Name] = sourcememory.NewTable(s.Spec(s.Name), source.Column{Name: "id", Kind: source.Int})
		for range 200 {
			h.tables[s.Name].Insert()
		}
	}
	p := h.process()
	t.Cleanup(start(t, p))
	is := func(what string, do func(*shard.Status) bool) {
		t.Helper()
		until(t, what, func() any { return &h.log }, func() bool {
			streams := p.Daemon().Status().Streams
			return len(streams) == 1 && streams[0].Name == "a" && do(&streams[0].Shards[0])
		})
	}
	is("the rate holds a back", func(s *shard.Status) bool { return s.Position > 0 && s.Position < 200 })
	delete(env, "BRIDGE_STREAM_A_RATE")
	load()
	if done, err := p.Reload(t.Context()); err != nil {
		t.Fatalf("%+v, %v", done, err)
	}
	is("a is published", func(s *shard.Status) bool { return s.Position == 200 })
}

// TestAReloadThatIsRefused: all that is wrong, or needs a restart, is named, and the former
// configuration goes on.
func TestAReloadThatIsRefused(t *testing.T) {
	t.Parallel()
	s := apptest.NewShop(t)
	r := newReloading(t, s)
	r.published(t, "orders", 60)
	before := r.now.Load()
	at, was := s.Env["BRIDGE_HTTP_ADDR"], maps.Clone(s.Env)
	refused := func(want ...string) {
		t.Helper()
		client := httpapi.Client{Addr: at, Setting: "HTTP"}
		_, err := client.Reload(t.Context())
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("without %q: %v", text, err)
			}
		}
	}
	s.Env["BRIDGE_STREAM_ORDERS_KIND"], s.Env["BRIDGE_POLL_INTERVAL"] = "table", "soon"
	refused("BRIDGE_STREAM_ORDERS_KIND: ", "\n  BRIDGE_POLL_INTERVAL: ")
	s.Env["BRIDGE_STREAM_ORDERS_KIND"], s.Env["BRIDGE_POLL_INTERVAL"] = "capability", "10ms"
	s.Env["BRIDGE_HTTP_ADDR"], s.Env["BRIDGE_CHECKPOINT_URL"], s.Env["BRIDGE_DOMAIN_ID"] = "127.0.0.1:1", "file:another", "other"
	refused("BRIDGE_HTTP_ADDR: has another value, which needs a restart", "BRIDGE_CHECKPOINT_URL: ", "BRIDGE_DOMAIN_ID: ")
	if r.now.Load() != before {
		t.Error("another app runs")
	}
	s.Exec(t, "INSERT INTO orders (name, total) VALUES ('o61', 61)")
	r.published(t, "orders", 61)
	if code, _ := httpapitest.Request(t, r.Daemon(), http.MethodGet, "/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d", code)
	}
	s.Env = was
	s.Env["BRIDGE_NATS_STREAM"] = "OTHER"
	refused("the former configuration goes on", "set BRIDGE_NATS_STREAM=", "in BRIDGE_SINK_URL")
}

// process opens a Process in place of the household's app, whose configuration is the same at each
// reload.
func (h *household) process() *Process {
	h.t.Helper()
	h.stop()
	h.cfg.HTTPAddr = "127.0.0.1:0"
	p := must.Get(OpenProcess(h.t.Context(), ProcessOptions{
		Config: h.cfg, Logger: textLogger(io.MultiWriter(h.t.Output(), &h.log)), Build: build, Load: func() (*config.Config, error) { return h.cfg, nil },
	}))(h.t)
	return p
}

// TestAStreamThatCanBeReadAgain goes on, without a person.
func TestAStreamThatCanBeReadAgain(t *testing.T) {
	every := readableEvery
	readableEvery = 50 * time.Millisecond
	t.Cleanup(func() { readableEvery = every })
	h := newHousehold(t, "moves")
	h.stop()
	h.denied.Store(true)
	p := h.process()
	t.Cleanup(start(t, p))
	h.eventually("it is stopped", func() bool { return p.Daemon().Status().Streams[0].Shards[0].Cause == shard.CauseBusUnreadable })
	h.insert("d_0", "M", "one")
	h.denied.Store(false)
	h.published("M", "one")
}

// TestAStreamOfWhichNothingIsLeft stays stopped: other streams are not stopped again and again to
// try it.
func TestAStreamOfWhichNothingIsLeft(t *testing.T) {
	every := readableEvery
	readableEvery = 50 * time.Millisecond
	t.Cleanup(func() { readableEvery = every })
	h := newHousehold(t, "moves")
	h.insert("d_0", "M", "one")
	h.published("M", "one")
	h.consumed.Store(true)
	p := h.process()
	t.Cleanup(start(t, p))
	h.eventually("it is stopped", func() bool { return p.Daemon().Status().Streams[0].Shards[0].Cause == shard.CauseBusUnreadable })
	tps := must.Get(h.bus.TPs(t.Context(), []string{"moves"}))(t)
	h.bus.Expire("moves", tps[0].End)
	must.OK(t, backoff.Pause(t.Context(), 10*readableEvery))
	if log := h.log.String(); strings.Contains(log, "can be read again") {
		t.Error(log)
	}
}

// TestAShutdownDuringAReload is in order: what was in flight is published, and no other app begins.
func TestAShutdownDuringAReload(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "moves")
	h.cfg.ShutdownTimeout = time.Minute
	p := h.process()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, reloaded := make(chan error, 1), make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	h.publishes("d_0", "M", "one")
	release := h.bus.Pause(0)
	h.sent(func() { h.insert("d_0", "N", "one") })
	go func() {
		_, err := p.Reload(t.Context())
		reloaded <- err
	}()
	h.eventually("a reload is under way", func() bool { since, _, _ := p.swap.under(); return since > 0 })
	cancel()
	release()
	if err := errors.Join(<-ended, p.Close()); err != nil {
		t.Error(err)
	}
	if err := <-reloaded; !errors.Is(err, errStopping) {
		t.Errorf("the reload ends with %v", err)
	}
	if state := h.folded()["N"]; state != "one" || strings.Contains(h.log.String(), "the former one goes on") {
		t.Errorf("N is %q", state)
	}
}

// TestAReloadThatOpensNoApp: the former configuration goes on once that can be opened, or another
// one that is reloaded, or a signal ends the process, and nothing is left open or closed twice.
func TestAReloadThatOpensNoApp(t *testing.T) {
	t.Parallel()
	const signal, another = 1000, 1001
	for _, refuses := range []int64{1, 3, signal, another} {
		h := newHousehold(t, "moves")
		p := h.process()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		h.publishes("d_0", "M", "one")
		if h.refuses.Store(refuses); refuses == signal {
			time.AfterFunc(time.Second, cancel)
		}
		limit, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		_, err := p.Reload(limit)
		if must.Fail(t, err, errFormer, errRefused.Error()); strings.Contains(err.Error(), "once it can be opened") != (refuses > 1) {
			t.Errorf("refused %d times: %v", refuses, err)
		}
		if refuses == another {
			p.opts.Load = func() (*config.Config, error) {
				h.refuses.Store(0)
				changed := *h.cfg
				changed.ShutdownTimeout++
				return &changed, nil
			}
			must.Get(p.Reload(limit))(t)
		}
		if refuses != signal {
			h.publishes("d_0", "N", "one")
			cancel()
		}
		if err := <-ended; errors.Is(err, errRefused) != (refuses == signal) {
			t.Errorf("refused %d times it ends with %v", refuses, err)
		}
		cancel()
		if err := p.Close(); err != nil || h.opened.Load() != 0 {
			t.Errorf("refused %d times: %v, %d databases are open", refuses, err, h.opened.Load())
		}
	}
}

// TestASupersededProcessIsReloaded: it does not take over from the bridge that has superseded it,
// neither by a reload that is asked for then nor by one that was under way.
func TestASupersededProcessIsReloaded(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "moves")
	p := h.process()
	t.Cleanup(start(t, p))
	h.publishes("d_0", "M", "one")
	h.store = storememory.New()
	h.start()
	h.published("M", "one")
	row := h.insert("d_1", "N", "two")
	superseded := func() bool { return p.now.Load().recovery.Progress().Superseded != nil }
	h.eventually("the first one is superseded", func() bool {
		h.update("d_1", row, "N", time.Now().String())
		return superseded()
	})
	if _, err := p.Daemon().Pause(t.Context(), httpapi.PauseRequest{Stream: "moves"}); !errors.Is(err, stream.ErrSuperseded) {
		t.Errorf("a pause: %v", err)
	}
	if _, err := p.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "does not take over") || !errors.Is(err, stream.ErrSuperseded) {
		t.Errorf("a reload is answered %v", err)
	}
	one := reload{h.cfg, make(chan error, 1), false}
	p.reloads <- one
	must.OK(t, <-one.done)
	h.update("d_1", row, "N", "last")
	h.published("N", "last")
	h.eventually("its streams are stopped", func() bool {
		return p.Daemon().Status().Streams[0].Shards[0].Cause == shard.CauseSuperseded
	})
	if !superseded() || p.Daemon().Status().Epoch != 0 || h.app.recovery.Progress().Superseded != nil {
		t.Error("it takes over")
	}
}

// TestAReloadInAGroupReconcilesNothing: what another process may have published was compared when
// this one took over.
func TestAReloadInAGroupReconcilesNothing(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, "moves")
	h.cfg.Standby = config.Standby{Group: "g", Timeout: groupTimeout}
	p := h.process()
	t.Cleanup(start(t, p))
	h.publishes("d_0", "M", "one")
	reconciles := func() (is bool) {
		a := p.now.Load()
		for i, sh := range a.shards {
			_, due := sh.ReconcileDue()
			s := a.reconcilers[i].Status()
			is = is || due || s.Running || s.Waiting > 0 || s.LastRun != nil
		}
		return is
	}
	h.eventually("the tables are compared, once", func() bool {
		a := p.now.Load()
		// A run has answered its demand before it ends.
		return !slices.ContainsFunc(a.shards, func(sh *shard.Shard) bool { _, due := sh.ReconcileDue(); return due }) &&
			!slices.ContainsFunc(a.reconcilers, func(r reconcile.Scheduled) bool { return r.Status().Running })
	})
	must.Get(p.Reload(t.Context()))(t)
	h.publishes("d_0", "N", "two")
	if reconciles() {
		t.Error("the tables are compared again")
	}
}

// TestAReloadThatTakesLong answers when its caller does not wait any more, goes on, and is the only
// one. The token is that of the file that it names.
func TestAReloadThatTakesLong(t *testing.T) {
	t.Parallel()
	s := apptest.NewShop(t)
	s.Env["BRIDGE_HTTP_TOKEN"] = "0123456789abcdef"
	r := newReloading(t, s)
	r.published(t, "orders", 60)
	path, load, loads := filepath.Join(t.TempDir(), "token"), r.opts.Load, make(chan struct{})
	must.OK(t, os.WriteFile(path, []byte("0123456789abcdef"), 0o600))
	delete(s.Env, "BRIDGE_HTTP_TOKEN")
	s.Env["BRIDGE_HTTP_TOKEN_FILE"] = path
	r.opts.Load = func() (*config.Config, error) { <-loads; return load() }
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, late)
	defer cancel()
	for range 2 {
		if _, err := r.Reload(ctx); !errors.Is(err, late) {
			t.Errorf("it ends with %v", err)
		}
	}
	close(loads)
	until(t, "it ends", func() any { return r.log }, func() bool { return strings.Contains(r.log.String(), "configuration reloaded") })
	must.OK(t, os.WriteFile(path, []byte("fedcba9876543210"), 0o600))
	if token, err := r.token(); err != nil || token != "fedcba9876543210" {
		t.Errorf("the token is %q, %v", token, err)
	}
}
