package app

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/internal/config"
	"bridge/internal/httpapi/httpapitest"
	"bridge/internal/shard"
	"bridge/reconcile"
)

func TestStatus(t *testing.T) {
	streams := []config.Stream{{Name: "orders", Kind: "capability"}, {Name: "bills", Kind: "release"}, {Name: "apps", Kind: "capability"}}
	polled := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := statusOf(streams, []snapshot{
		{Status: shard.Status{Stream: "orders", Shard: "t_0", State: shard.Running, Position: 1<<64 - 1, Highest: 7, OpenGaps: 2, Lag: 1500 * time.Millisecond, LagKnown: true, LastPoll: polled}},
		{Status: shard.Status{Stream: "orders", Shard: "t_1", State: shard.Stopped, LastError: "no such table"}, reconcile: reconcile.Status{Guard: "too many"}},
		{Status: shard.Status{Stream: "bills", Shard: "b", State: shard.Waiting}},
		{Status: shard.Status{Stream: "apps", Shard: "a", State: shard.Running, LagKnown: true}, reconcile: reconcile.Status{Guard: "too many"}},
	})
	status.Started = polled
	code, body := httpapitest.Request(t, &httpapitest.Daemon{State: status}, "GET", "/api/v1/status")
	const gaps = `"gaps":{"hot":0,"cold":0,"inFlight":0,"unpolled":0,"oldestSeconds":0,"oldest":[]}`
	none := func(guard string) string {
		return `"reconcile":{"running":false,"waiting":0,"dryRun":false,"startedAt":null,"endedAt":null,"rows":0,"rowsOf":0,"percent":0,"rowsPerSecond":0,"secondsLeft":0,` +
			`"added":0,"modified":0,"deleted":0,"missed":0,"absent":0,"resumed":false,"unjudged":null,"verifiedThrough":null,"guard":` + guard + `,"lastError":null,"nextAt":null,"lastRun":null,"lastDryRun":null}`
	}
	want := `{"started":"2026-01-02T03:04:05Z","streams":[{"name":"orders","kind":"capability","state":"stopped","shards":[` +
		`{"shard":"t_0","state":"running","position":18446744073709551615,"highest":7,"openGaps":2,` + gaps + `,"lagSeconds":1.5,"lastError":null,"lastPoll":"2026-01-02T03:04:05Z",` + none("null") + `},` +
		`{"shard":"t_1","state":"stopped","position":0,"highest":0,"openGaps":0,` + gaps + `,"lagSeconds":null,"lastError":"no such table","lastPoll":null,` + none(`"too many"`) + `}]},` +
		`{"name":"bills","kind":"release","state":"waiting","shards":[` +
		`{"shard":"b","state":"waiting","position":0,"highest":0,"openGaps":0,` + gaps + `,"lagSeconds":null,"lastError":null,"lastPoll":null,` + none("null") + `}]},` +
		`{"name":"apps","kind":"capability","state":"degraded","shards":[` +
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
