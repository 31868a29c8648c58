package app

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/catchup"
	"bridge/internal/config"
	"bridge/internal/httpapi/httpapitest"
	"bridge/internal/shard"
	"bridge/reconcile"
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
	if code != 200 || strings.TrimSpace(body) != want {
		t.Errorf("%d %s, want %s", code, body, want)
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
