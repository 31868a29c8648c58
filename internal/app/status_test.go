package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// TestStates: the worst state of its shards is that of a stream, and a guard makes one degraded.
func TestStates(t *testing.T) {
	running, stopped, waiting := shard.Status{State: shard.Running}, shard.Status{State: shard.Stopped, LastError: "no such table"}, shard.Status{State: shard.Waiting}
	guarded := running
	guarded.Reconcile = &reconcile.Status{Guard: "too many"}
	for want, shards := range map[shard.State][]shard.Status{
		shard.Running: {running, running}, shard.Stopped: {stopped, guarded}, shard.Waiting: {running, waiting}, shard.Degraded: {waiting, guarded},
	} {
		for i := range shards {
			shards[i].Stream = "orders"
		}
		status := statusOf([]*appStream{{Stream: &config.Stream{Name: "orders"}}}, stream.CatchUpProgress{Epoch: 9, Streams: []stream.StreamProgress{
			{Left: 8, OffsetsPerSecond: 0.5, SecondsLeft: 16, Seconds: 2, Err: errors.New("another KEY")},
		}}, shards)
		one := status.Streams[0]
		if one.State != want || status.Epoch != 9 || one.CatchUp.Left != 8 || one.CatchUp.SecondsLeft != 16 || one.CatchUp.Error != "another KEY" {
			t.Errorf("%+v, want %s", one, want)
		}
		if last := one.Shards[len(shards)-1]; want == shard.Degraded && (last.State != want || last.LastError != "too many") {
			t.Errorf("a guard: %+v", last)
		}
	}
}

// TestWhatAShardNeeds: the reason and the remedy of a state are told apart, and what was published
// is summed up by stream.
func TestWhatAShardNeeds(t *testing.T) {
	lost := shard.Status{
		Stream: "orders", Shard: "t_0", State: shard.Running, Position: 600, Highest: 1600, LagSeconds: new(60.0), Backlog: &shard.Backlog{IDs: 1000},
		Traffic: shard.Traffic{
			Published: shard.Published{Rows: 50, RowsPerSecond: 5, LastHour: []uint32{1, 2}}, Late: 3,
			DeadLetters: shard.DeadLetters{Count: 2, Reasons: []shard.DeadLetterCount{{Reason: "too large", Count: 2}}},
		},
	}
	denied := shard.Status{Stream: "orders", Shard: "t_1", State: shard.Stopped, LastError: "access denied", Cause: shard.CauseDenied}
	streams := []*appStream{{Stream: &config.Stream{Name: "orders"}}}
	streams[0].Kind = event.Capability
	h := &httpapitest.Daemon{State: statusOf(streams, stream.CatchUpProgress{Streams: make([]stream.StreamProgress, 1)}, []shard.Status{
		lost, denied, {Stream: "orders", Shard: "t_2", State: shard.Running, Traffic: lost.Traffic, Reconcile: &reconcile.Status{Guard: "40 of 60 are gone"}},
	})}
	_, body := httpapitest.Request(t, h, "GET", "/api/v1/status")
	var status httpapi.Status
	must.OK(t, json.Unmarshal([]byte(body), &status))
	is := func(what string, holds bool) {
		if !holds {
			t.Errorf("not so: %s: %s", what, body)
		}
	}
	shards, sum := status.Streams[0].Shards, status.Streams[0].Summary
	is("one that runs needs nothing", shards[0].Reason == "" && shards[0].Remedy == "" && shards[0].Cause == "")
	is("a stop says what to do", shards[1].Reason == "access denied" && shards[1].Cause == "denied" && strings.Contains(string(shards[1].Remedy), "GRANT"))
	is("a guard names the command", shards[2].State == "degraded" && shards[2].Reason == "40 of 60 are gone" && strings.Contains(string(shards[2].Remedy), "--allow-deletes orders)"))
	is("sums", sum.Published.Rows == 100 && sum.Published.LastHour[1] == 4 && sum.Late == 6 && sum.DeadLetters.Count == 4 && sum.DeadLetters.Reasons[0].Count == 4)
	is("states", sum.States["stopped"] == 1 && sum.States["degraded"] == 1 && sum.States["running"] == 1 && sum.LagUnknown == 2 && *sum.LagSeconds == 60)
	is("the summary has the backlog", sum.Backlog != nil && sum.Backlog.IDs == 1000)
}

// TestEveryCauseHasARemedy also holds that it names the stream and its variables.
func TestEveryCauseHasARemedy(t *testing.T) {
	for cause := range remedies {
		if got := remedies[cause].of("orders"); got == "" || strings.ContainsAny(got, "{}%") {
			t.Errorf("%s: %q", cause, got)
		}
	}
	for cause, want := range map[shard.Cause]string{
		shard.CauseBadValue: "set BRIDGE_STREAM_ORDERS_ON_BAD_VALUE=null", shard.CauseRefused: "set BRIDGE_STREAM_ORDERS_DEAD_LETTER",
		shard.CauseSchema: "Increase BRIDGE_STREAM_ORDERS_EVENT_VERSION", shard.CauseIDsReused: "--allow-deletes orders",
		shard.CauseMissing: "bridge checkpoint move orders",
	} {
		if got := remedies[cause].of("orders"); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", cause, got, want)
		}
	}
	if got := remedyOf(&shard.Status{State: shard.Starting}); !strings.Contains(got, "bridge health --ready") {
		t.Errorf("a start that takes long has the remedy %q", got)
	}
	page := must.Get(os.ReadFile("../../docs/operations.md"))(t)
	for _, cause := range []shard.Cause{
		shard.CauseMissing, shard.CauseDenied, shard.CauseUnfit, shard.CauseIDsReused, shard.CauseConfiguration, shard.CauseSchema, shard.CauseBusLost,
		shard.CauseBusUnreadable, shard.CauseSuperseded, shard.CauseRefused, shard.CauseDeadLetterLimit, shard.CauseBadValue, shard.CauseCheckpoint, shard.CauseOther,
	} {
		if remedies[cause].text == "" || !strings.Contains(string(page), "`"+string(cause)+"`") {
			t.Errorf("%s has the remedy %q, or is not in docs/operations.md", cause, remedies[cause].text)
		}
	}
}

// waitingBus is a bus that says what it waits for.
type waitingBus struct {
	sink.Sink
	log *outage.Log
}

func (b waitingBus) Outages() []outage.Outage { return b.log.Outages() }

// TestWhatIsAwayShows in the metrics, in the status, and in readiness, which names the variable.
func TestWhatIsAwayShows(t *testing.T) {
	refused := option.Errorf("correct %s", option.SinkURL)
	for name, c := range map[string]struct {
		// source and bus are what these answer when they are asked.
		source, bus error
		// fault is what waits, of the bus itself where ofBus is set.
		fault string
		ofBus bool
		away  string
	}{
		"nothing":                     {},
		"the source":                  {source: refused, fault: shard.SourceDependency, away: "source"},
		"the bus":                     {bus: refused, fault: "orders/3", ofBus: true, away: "bus"},
		"a transaction of others":     {bus: fmt.Errorf("%w: %w", sink.ErrHeldUp, refused), fault: "topic/orders", away: "bus"},
		"the disk, of a table":        {fault: "checkpoint/orders/t_0", away: "checkpoint"},
		"the disk":                    {fault: "checkpoint", away: "checkpoint"},
		"one table":                   {fault: "shard orders/t_0"},
		"the standby group":           {fault: standbyDependency, away: "standby group"},
		"the progress that is copied": {fault: copiesDependency, away: "progress on the bus"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := func(err error) *httpapi.Probe {
				return &httpapi.Probe{Ready: func(context.Context) error { return err }}
			}
			faults, ofBus := outage.New(slog.New(slog.DiscardHandler)), outage.New(slog.New(slog.DiscardHandler))
			committer := stream.NewCommitter(storememory.New(), store.Image{}, faults)
			a := &App{
				opts: Options{Config: new(config.Config)}, kept: &kept{member: standby.New(standby.Options{})}, sinkProbe: answers(c.bus),
				parts: parts{
					faults: faults, committer: committer, copies: buscopy.NewKeeper(buscopy.Options{}), recovery: stream.New(stream.Options{}), sources: probed(answers(c.source)),
					sink: waitingBus{log: ofBus},
				},
			}
			status := httpapi.Status{Streams: []httpapi.StreamStatus{{
				CatchUp: stream.StreamProgress{Ready: true}, Shards: []shard.Status{{LastPoll: null.At(time.Now())}}, Progress: &buscopy.Status{WrittenAt: null.At(time.Now())},
			}}}
			if (health{a}).addDependencies(&status); status.Checkpoint.Answers != nil {
				t.Error("the checkpoint was not saved yet")
			}
			must.OK(t, committer.Sync(t.Context(), new(store.Batch)))
			if on := map[bool]*outage.Log{false: faults, true: ofBus}[c.ofBus]; c.fault != "" {
				on.Fail(c.fault, refused)
			}
			health{a}.addDependencies(&status)
			dependencies := map[string]*httpapi.DependencyStatus{"source": status.Source, "bus": status.Bus, "checkpoint": status.Checkpoint, "progress on the bus": status.Progress, "standby group": nil}
			values := collected(t, newOutageCollector(a))
			for name, d := range dependencies {
				up, shown := values["bridge_dependency_up "+name]
				if is := name == c.away; !shown || up == oneIf(is) || d != nil && (d.Answers == nil || *d.Answers == is || d.Since.IsZero() == is || is && d.Error != "correct BRIDGE_SINK_URL") {
					t.Errorf("%s: %v is up, %+v", name, up, d)
				}
			}
			if len(values) != 6 || values["bridge_held_up_by_transaction"] != oneIf(errors.Is(c.bus, sink.ErrHeldUp)) {
				t.Errorf("there are %v", values)
			}
			if reasons := fmt.Sprint(health{a}.Ready(t.Context())); strings.Contains(reasons, "correct BRIDGE_SINK_URL") != (c.fault != "") {
				t.Errorf("readiness says %s", reasons)
			}
		})
	}
}

func TestATakenPortNamesTheVariable(t *testing.T) {
	first := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = first.Close() }()
	s := apptest.NewShop(t)
	s.Env["BRIDGE_HTTP_ADDR"] = first.Addr().String()
	_, err := OpenProcess(t.Context(), ProcessOptions{Config: load(t, s.Env), Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "another process has the port: end it, or set BRIDGE_HTTP_ADDR") {
		t.Errorf("error %v", err)
	}
}

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
		begun := time.Now()
		if values := collected(t, newOutageCollector(h.App)); time.Since(begun) != scrapeTimeout || values["bridge_dependency_up source"] != 0 || len(values) != 4 {
			t.Errorf("a scrape after %s: %v", time.Since(begun), values)
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
		h := health{&App{opts: Options{Config: new(config.Config)}, kept: &kept{swap: swap{began: time.Now().Add(-time.Hour), wasReady: true}}}}
		for _, failed := range []error{nil, errRefused} {
			if failed != nil {
				h.swap.retry(failed)
			}
			if err, why := h.Live(), fmt.Sprint(h.Ready(t.Context())); (err == nil) != (failed != nil) || strings.Contains(why, "connection refused") != (failed != nil) {
				t.Errorf("a reload that tries again since %v: alive: %v, ready: %s", failed, err, why)
			}
		}
	})
}

func TestAdvertised(t *testing.T) {
	bus := []string{"127.0.0.1:9092"}
	for listens, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080",
		"10.1.2.3:8080":  "10.1.2.3:8080",
		"0.0.0.0:8080":   "127.0.0.1:8080",
		"[::]:8080":      "127.0.0.1:8080",
	} {
		addr := must.Get(net.ResolveTCPAddr("tcp", listens))(t)
		if got := advertised(t.Context(), addr, bus); got != want {
			t.Errorf("%s is reached at %s, want %s", listens, got, want)
		}
	}
	// Without a name that is known it is the address towards other networks, where there are any.
	if got := localIP(t.Context(), []string{"bus.invalid:9092"}); got != "" && net.ParseIP(got) == nil {
		t.Errorf("got %q, not an address", got)
	}
}

// TestWhoIsAsked: a process that waits says why the one that works cannot be asked, and what to do.
func TestWhoIsAsked(t *testing.T) {
	working := func(host, addr string) standby.Claim { return standby.Claim{Member: "a", Host: host, Addr: addr} }
	for _, c := range []struct {
		name   string
		status standby.Status
		peer   httpapi.Peer
		words  string
	}{
		{"itself", standby.Status{Member: "b", Works: true}, httpapi.Peer{Self: true, Member: "b"}, ""},
		{"another host", standby.Status{Host: "h2", Claim: working("h1", "10.0.0.1:8080")}, httpapi.Peer{Member: "a", Addr: "10.0.0.1:8080"}, ""},
		{"another process of its host", standby.Status{Host: "h1", Claim: working("h1", "127.0.0.1:8080")}, httpapi.Peer{Member: "a", Addr: "127.0.0.1:8080"}, ""},
		{"none that is known", standby.Status{Host: "h2"}, httpapi.Peer{}, "which one works is not known now: ask again"},
		{"one that listens nowhere", standby.Status{Host: "h2", Claim: working("h1", "")}, httpapi.Peer{}, "a on h1 works and listens nowhere"},
		{"one that its host alone reaches", standby.Status{Host: "h2", Claim: working("h1", "127.0.0.1:8080")}, httpapi.Peer{}, "run the command there, or set BRIDGE_HTTP_ADDR to :8080"},
	} {
		peer, err := peerOf(&c.status)
		peer.Name = ""
		switch {
		case c.words == "" && (err != nil || peer != c.peer):
			t.Errorf("%s: %+v, %v", c.name, peer, err)
		case c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
