package app

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
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
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
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
	} {
		if got := remedies[cause].of("orders"); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", cause, got, want)
		}
	}
	if got := remedyOf(&shard.Status{State: shard.Starting}); !strings.Contains(got, "bridge health --ready") {
		t.Errorf("a start that takes long has the remedy %q", got)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cause := range shard.Causes() {
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

// TestWhatAnswers: outages tell which of source, bus and checkpoint is away.
func TestWhatAnswers(t *testing.T) {
	faults := outage.New(slog.New(slog.DiscardHandler))
	committer := stream.NewCommitter(storememory.New(), store.Image{}, faults)
	sources := probed(nil)
	sources.cfg.Sources[0].Addr = "db:3306"
	h := health{&App{kept: new(kept), opts: Options{Config: &config.Config{Sink: config.Sink{BusTraits: driver.BusTraits{Servers: []string{"k:9092"}}}}}, parts: parts{faults: faults, committer: committer, copies: new(buscopy.Keeper), sources: sources}}}
	polled := time.Now()
	shown := func() httpapi.Status {
		s := httpapi.Status{Streams: []httpapi.StreamStatus{{CatchUp: stream.StreamProgress{Ready: true}, Shards: []shard.Status{{LastPoll: null.At(polled)}}}}}
		h.addDependencies(&s)
		return s
	}
	if s := shown(); s.Checkpoint.Answers != nil {
		t.Error("the checkpoint was not saved yet")
	}
	if err := committer.Sync(t.Context(), new(store.Batch)); err != nil {
		t.Fatal(err)
	}
	faults.Fail(standbyDependency, errors.New("no right"))
	faults.Fail(copiesDependency, errors.New("no right"))
	if s := shown(); !*s.Source.Answers || !*s.Bus.Answers || *s.Progress.Answers || !*s.Checkpoint.Answers || s.Source.Address != "db:3306" || s.Bus.Address != "k:9092" {
		t.Errorf("%+v %+v %+v", s.Source, s.Bus, s.Checkpoint)
	}
	faults.Fail("shard orders/t_0", errors.New("one table"))
	bus := outage.New(slog.New(slog.DiscardHandler))
	h.sink = waitingBus{Sink: h.sink, log: bus}
	bus.Fail("kafka", errors.New("connection refused"))
	bus.Fail("orders/3", errors.New("no leader"))
	s := shown()
	if !*s.Source.Answers || *s.Bus.Answers || s.Bus.Since.IsZero() || s.Bus.Error != "no leader" && s.Bus.Error != "connection refused" {
		t.Errorf("with the bus away: %+v %+v", s.Source, s.Bus)
	}
	faults.Fail(shard.SourceDependency, errors.New("gone"))
	faults.Fail("checkpoint/orders/t_0", errors.New("full"))
	if s = shown(); *s.Source.Answers || *s.Checkpoint.Answers || s.Source.Error != "gone" || s.Checkpoint.Error != "full" {
		t.Errorf("with all away: %+v %+v", s.Source, s.Checkpoint)
	}
}

func TestATakenPortNamesTheVariable(t *testing.T) {
	first, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	s := apptest.NewShop(t)
	s.Env["BRIDGE_HTTP_ADDR"] = first.Addr().String()
	_, err = OpenProcess(t.Context(), ProcessOptions{Config: load(t, s.Env), Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "another process has the port: end it, or set BRIDGE_HTTP_ADDR") {
		t.Errorf("error %v", err)
	}
}
