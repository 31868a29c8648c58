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

	"github.com/prometheus/client_golang/prometheus"

	"bridge/checkpoint/store"
	storememory "bridge/checkpoint/store/memory"
	"bridge/internal/buscopy"
	"bridge/internal/catchup"
	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/httpapi/httpapitest"
	"bridge/internal/outage"
	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/sink"
)

func TestStatus(t *testing.T) {
	streams := []*stream{
		{Stream: &config.Stream{Name: "orders", Kind: "capability"}}, {Stream: &config.Stream{Name: "bills", Kind: "release"}}, {Stream: &config.Stream{Name: "apps", Kind: "capability"}},
	}
	caught := catchup.Progress{Epoch: 9, Streams: []catchup.StreamProgress{
		{Stream: "orders", Ready: true, Messages: 12, Rate: 4, Elapsed: 3 * time.Second},
		{Stream: "bills", Messages: 1, Left: 8, Rate: 0.5, ETA: 16 * time.Second, Elapsed: 2 * time.Second},
		{Stream: "apps", Err: errors.New("another KEY")},
	}}
	polled := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := statusOf(streams, caught, []snapshot{
		{Status: shard.Status{Stream: "orders", Shard: "t_0", State: shard.Running, Position: 1<<64 - 1, Highest: 7, OpenGaps: 2, Lag: 1500 * time.Millisecond, LagKnown: true, LastPoll: polled}},
		{Status: shard.Status{Stream: "orders", Shard: "t_1", State: shard.Stopped, LastError: "no such table"}, reconcile: reconcile.Status{Guard: "too many"}},
		{Status: shard.Status{Stream: "bills", Shard: "b", State: shard.Waiting}},
		{Status: shard.Status{Stream: "apps", Shard: "a", State: shard.Running, LagKnown: true}, reconcile: reconcile.Status{Guard: "too many"}},
	})
	status.Started, status.Delivery = polled, config.ExactlyOnce
	code, body := httpapitest.Request(t, &httpapitest.Daemon{State: status}, "GET", "/api/v1/status")
	const gaps = `"gaps":{"hot":0,"cold":0,"inFlight":0,"unpolled":0,"oldestSeconds":0,"oldest":[]}`
	none := func(guard string) string {
		return `"reconcile":{"running":false,"waiting":0,"dryRun":false,"startedAt":null,"endedAt":null,"rows":0,"rowsOf":0,"percent":0,"rowsPerSecond":0,"secondsLeft":0,` +
			`"added":0,"modified":0,"deleted":0,"missed":0,"absent":0,"resumed":false,"unjudged":null,"verifiedThrough":null,"guard":` + guard + `,"lastError":null,"nextAt":null,"lastRun":null,"lastDryRun":null}`
	}
	const ready = `"catchUp":{"ready":true,"error":null,"messages":12,"left":0,"offsetsPerSecond":4,"secondsLeft":0,"seconds":3},"nominated":0,"twins":0,`
	const behind = `"catchUp":{"ready":false,"error":null,"messages":1,"left":8,"offsetsPerSecond":0.5,"secondsLeft":16,"seconds":2},"nominated":0,"twins":0,`
	const ended = `"catchUp":{"ready":false,"error":"another KEY","messages":0,"left":0,"offsetsPerSecond":0,"secondsLeft":0,"seconds":0},"nominated":0,"twins":0,`
	want := `{"started":"2026-01-02T03:04:05Z","delivery":"exactly-once","epoch":9,"streams":[{"name":"orders","kind":"capability","state":"stopped",` + ready + `"shards":[` +
		`{"shard":"t_0","state":"running","position":18446744073709551615,"highest":7,"openGaps":2,` + gaps + `,"lagSeconds":1.5,"lastError":null,"lastPoll":"2026-01-02T03:04:05Z",` + none("null") + `},` +
		`{"shard":"t_1","state":"stopped","position":0,"highest":0,"openGaps":0,` + gaps + `,"lagSeconds":null,"lastError":"no such table","lastPoll":null,` + none(`"too many"`) + `}]},` +
		`{"name":"bills","kind":"release","state":"waiting",` + behind + `"shards":[` +
		`{"shard":"b","state":"waiting","position":0,"highest":0,"openGaps":0,` + gaps + `,"lagSeconds":null,"lastError":null,"lastPoll":null,` + none("null") + `}]},` +
		`{"name":"apps","kind":"capability","state":"degraded",` + ended + `"shards":[` +
		`{"shard":"a","state":"degraded","position":0,"highest":0,"openGaps":0,` + gaps + `,"lagSeconds":0,"lastError":"too many","lastPoll":null,` + none(`"too many"`) + `}]}]}`
	if got := former(t, body); code != 200 || got != former(t, want) {
		t.Errorf("%d %s, want %s", code, got, want)
	}
}

// former returns a status with the members that other programs have always relied on.
func former(t *testing.T, body string) string {
	t.Helper()
	var status map[string]any
	numbers := json.NewDecoder(strings.NewReader(body))
	numbers.UseNumber()
	if err := numbers.Decode(&status); err != nil {
		t.Fatal(err)
	}
	for _, stream := range status["streams"].([]any) {
		stream := stream.(map[string]any)
		delete(stream, "summary")
		delete(stream, "resendable")
		for _, sh := range stream["shards"].([]any) {
			for _, added := range []string{"reason", "remedy", "cause", "published", "late", "deadLetters", "backlog", "noTail"} {
				delete(sh.(map[string]any), added)
			}
		}
	}
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWhatAShardNeeds: the reason and the remedy of a state are told apart, and what was published
// is summed up by stream.
func TestWhatAShardNeeds(t *testing.T) {
	lost := shard.Status{
		Stream: "orders", Shard: "t_0", State: shard.Running, Position: 600, Highest: 1600, Lag: time.Minute, LagKnown: true, Backlog: true,
	}
	traffic := shard.Traffic{
		Rows: 50, RowsPerSecond: 5, IDsPerSecond: 10, Minutes: []uint32{1, 2}, Late: 3, Drained: 100,
		DeadLetters: []shard.DeadLetterCount{{Reason: "too large", Count: 2}},
	}
	denied := shard.Status{Stream: "orders", Shard: "t_1", State: shard.Stopped, LastError: "access denied", Cause: shard.CauseDenied}
	streams := []*stream{{Stream: &config.Stream{Name: "orders", Kind: "capability"}}}
	h := &httpapitest.Daemon{State: statusOf(streams, catchup.Progress{Streams: make([]catchup.StreamProgress, 1)}, []snapshot{
		{Status: lost, traffic: traffic}, {Status: denied}, {Status: shard.Status{Stream: "orders", Shard: "t_2", State: shard.Running}, traffic: traffic, reconcile: reconcile.Status{Guard: "40 of 60 are gone"}},
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
	is("one that runs needs nothing", shards[0].Reason == nil && shards[0].Remedy == nil && shards[0].Cause == nil)
	b := shards[0].Backlog
	is("a backlog since 100 is done by a third", b != nil && b.IDs == 1000 && int(b.Percent) == 33 && *b.SecondsLeft == 100)
	is("a stop says what to do", *shards[1].Reason == "access denied" && *shards[1].Cause == "denied" && strings.Contains(*shards[1].Remedy, "GRANT"))
	is("a guard names the command", shards[2].State == "degraded" && *shards[2].Reason == "40 of 60 are gone" && strings.Contains(*shards[2].Remedy, "--allow-deletes orders)"))
	is("sums", sum.Published.Rows == 100 && sum.Published.LastHour[1] == 4 && sum.Late == 6 && sum.DeadLetters.Count == 4 && sum.DeadLetters.Reasons[0].Count == 4)
	is("states", sum.States["stopped"] == 1 && sum.States["degraded"] == 1 && sum.States["running"] == 1 && sum.LagUnknown == 2 && *sum.LagSeconds == 60)
	is("the summary has the backlog", sum.Backlog != nil && sum.Backlog.IDs == 1000)
}

// TestEveryCauseHasARemedy also holds that it names the stream and its variables.
func TestEveryCauseHasARemedy(t *testing.T) {
	texts := newRemedyTexts("orders")
	for cause := range remedies {
		if got := texts.ofCause(cause); got == "" || strings.ContainsAny(got, "{}%") {
			t.Errorf("%s: %q", cause, got)
		}
	}
	for cause, want := range map[shard.Cause]string{
		shard.CauseBadValue: "set BRIDGE_STREAM_ORDERS_ON_BAD_VALUE=null", shard.CauseRefused: "set BRIDGE_STREAM_ORDERS_DEAD_LETTER",
		shard.CauseSchema: "Increase BRIDGE_STREAM_ORDERS_EVENT_VERSION", shard.CauseIDsReused: "--allow-deletes orders",
	} {
		if got := texts.ofCause(cause); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", cause, got, want)
		}
	}
	if got := texts.of(&snapshot{Status: shard.Status{State: shard.Starting}}); !strings.Contains(got, "bridge health --ready") {
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
	committer := catchup.NewCommitter(storememory.New(), store.Image{}, faults)
	h := health{&App{opts: Options{Config: &config.Config{Source: config.Source{Scheme: "mysql", Addr: "db:3306"}, Sink: config.Sink{Scheme: "kafka", Kafka: config.Kafka{Brokers: []string{"k:9092"}}}}}, parts: parts{faults: faults, committer: committer, copies: new(buscopy.Keeper)}}}
	polled := time.Now()
	shown := func() httpapi.Status {
		s := httpapi.Status{Streams: []httpapi.StreamStatus{{CatchUp: httpapi.CatchUpStatus{Ready: true}, Shards: []httpapi.ShardStatus{{LastPoll: &polled}}}}}
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
	if !*s.Source.Answers || *s.Bus.Answers || s.Bus.Since == nil || *s.Bus.Error != "no leader" && *s.Bus.Error != "connection refused" {
		t.Errorf("with the bus away: %+v %+v", s.Source, s.Bus)
	}
	faults.Fail(shard.SourceDependency, errors.New("gone"))
	faults.Fail("checkpoint/orders/t_0", errors.New("full"))
	if s = shown(); *s.Source.Answers || *s.Checkpoint.Answers || *s.Source.Error != "gone" || *s.Checkpoint.Error != "full" {
		t.Errorf("with all away: %+v %+v", s.Source, s.Checkpoint)
	}
}

func TestATakenPortNamesTheVariable(t *testing.T) {
	first, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	cfg := &config.Config{HTTPAddr: first.Addr().String()}
	_, err = openHTTP(t.Context(), cfg, &httpapitest.Daemon{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "another process has the port: end it, or set BRIDGE_HTTP_ADDR") {
		t.Errorf("error %v", err)
	}
}
