package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/standby"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// usualHealthTimeout is that of the program, whose tests wait for longer.
var usualHealthTimeout = healthTimeout

// A bridge on a machine that is busy with other things answers within a minute.
func init() { healthTimeout = time.Minute }

func TestHealthCommand(t *testing.T) {
	silent := make(chan struct{})
	waits := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silent }))
	defer waits.Close()
	defer close(silent)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": httpapitest.Serve(t, &httpapitest.Daemon{}), "BRIDGE_TYPO": "1", "BRIDGE_POLL_INTERVAL": "x"}, exitFine, "live", "health")
	got := mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": strings.TrimPrefix(gone.URL, "http://")}, exitFailed, "BRIDGE_HTTP_ADDR", "health")
	if !strings.Contains(got.err, "refused") {
		t.Errorf("nobody listens: %+v", got)
	}
	defer func(longer time.Duration) { healthTimeout = longer }(healthTimeout)
	if healthTimeout = 50 * time.Millisecond; usualHealthTimeout != 4*time.Second {
		t.Errorf("it gives up after %s", usualHealthTimeout)
	}
	mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": strings.TrimPrefix(waits.URL, "http://")}, exitFailed, "no answer within 50ms", "health")
	for _, addr := range []string{"8080", "host:http", ":0", "a:b:c"} {
		mustCall(t, settingsOf{"BRIDGE_HTTP_ADDR": addr}, exitUsage, "BRIDGE_HTTP_ADDR: ", "health")
	}
}

// TestCommandsOverTLS: in the container, whose certificate is not for 127.0.0.1, and elsewhere with
// the authorities alone.
func TestCommandsOverTLS(t *testing.T) {
	t.Parallel()
	certs, s := testenv.NewCerts(t), newShop(t)
	s.env["BRIDGE_HTTP_TLS_CERT"], s.env["BRIDGE_HTTP_TLS_KEY"] = certs.NamedCert, certs.NamedKey
	s.startDaemon()
	for line, words := range map[string]string{"health": "live", "health --ready": "ready", "status": "orders orders running", "reconcile": "orders orders"} {
		s.call(exitFine, words, line)
	}
	elsewhere := &shop{Shop: s.Shop, t: t, env: maps.Clone(s.env)}
	delete(elsewhere.env, "BRIDGE_HTTP_TLS_CERT")
	delete(elsewhere.env, "BRIDGE_HTTP_TLS_KEY")
	elsewhere.call(exitFailed, "it speaks TLS: set BRIDGE_HTTP_TLS_CA: see that it runs", "health")
	elsewhere.env["BRIDGE_HTTP_TLS_CA"] = certs.CA
	elsewhere.call(exitFailed, "127.0.0.1", "health")
	s.env["BRIDGE_HTTP_TLS_CERT"] = certs.ServerCert
	s.call(exitFailed, "its certificate is not trusted: x509: certificate signed by unknown authority: see BRIDGE_HTTP_TLS_CA", "health")
	s.call(exitUsage, "BRIDGE_HTTP_TLS_CERT: and BRIDGE_HTTP_TLS_KEY name files that are no pair", "run")
}

// TestTheDocumentOfARunningBridge: requests of all kinds get answers that the OpenAPI document has.
func TestTheDocumentOfARunningBridge(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_SERVE"], s.env["BRIDGE_STREAM_ORDERS_DEAD_LETTER"] = "true", "bridge.dead-letter"
	s.startDaemon()
	// A tail has no end. Whether a table or a next page is there is not for a schema to say.
	asks := testenv.Fetched("schemathesis", "python-openapi", "bin/schemathesis", "run", "http://"+s.env["BRIDGE_HTTP_ADDR"]+"/api/v1/openapi.json", "--seed=1", "--max-examples=20", "--exclude-path=/api/v1/tail",
		"--checks=all", "--exclude-checks=ignored_auth,positive_data_acceptance", "--request-timeout=30", "--no-color")
	asks.Dir = t.TempDir() // it keeps files of its runs
	asks.Run(t)
}

// TestAsks has bridges, and programs that are none, with what commands print of them, on stderr
// behind "!", and what they ask for.
func TestAsks(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	since := null.At(began)
	many := httpapi.Status{Started: began, Delivery: "at-least-once", Streams: []httpapi.StreamStatus{{Name: "stock", State: "stopped", Shards: []shard.Status{{Shard: "stock", State: "stopped"}}}, {Name: "orders", State: "stopped"}}}
	for i := range 30 {
		many.Streams[1].Shards = append(many.Streams[1].Shards, shard.Status{Shard: fmt.Sprintf("t_%02d", i), State: "running", Gaps: shard.Gaps{Cold: 1}})
	}
	many.Streams[1].Shards[17].State, many.Streams[1].Shards[17].Reason = "stopped", "no such table"
	bridges := map[string]*httpapitest.Daemon{
		"well": {Left: httpapi.Paused{PausedAt: since}}, "dead": {Dead: errors.New("a loop stands still")}, "rude": {Dead: errors.New("orders_\x1b[2J\u202e")},
		"waits": {Reasons: []httpapi.Reason{{Stream: "orders", Shard: "t_0", Reason: "no such table"}, {Reason: "sink: bus is away"}}},
		"held":  {Left: httpapi.Paused{PausedAt: since, Publishing: 1, NotOnBus: "another folder does not know it"}}, "refuses": {Refuses: httpapi.ErrCannotPause},
		"many": {State: many},
	}
	configtest.Recorded(t, "testdata/asks.txt", *update, func(t *testing.T, input []string) string {
		addr, bridge := "127.0.0.1:1", bridges[input[0]]
		if bridge != nil {
			addr = httpapitest.Serve(t, bridge)
			bridge.Requests = nil
		} else if status, body, _ := strings.Cut(input[0], " "); status != "none" {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(must.Get(strconv.Atoi(status))(t))
				_, _ = io.WriteString(w, body)
			}))
			t.Cleanup(server.Close)
			addr = strings.TrimPrefix(server.URL, "http://")
		}
		got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": addr}, strings.Fields(input[1])[1:]...)
		text := got.out
		for line := range strings.Lines(got.err) {
			text += "! " + line
		}
		if bridge != nil && len(bridge.Requests) > 0 {
			text += "asked for " + strings.Join(bridge.Requests, ", ") + "\n"
		}
		return fmt.Sprintf("%s= %d\n", strings.ReplaceAll(text, addr, "ADDR"), got.status)
	})
}

// TestStatusOfAll asks several processes: their tables are one list, a standby that waits adds
// none, and what has not answered is named.
func TestStatusOfAll(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	serve := func(index int, group *standby.Status, shards ...shard.Status) string {
		return httpapitest.Serve(t, &httpapitest.Daemon{State: httpapi.Status{
			Started: began, Delivery: "at-least-once", Share: &share.Share{Index: index, Number: 3}, Standby: group,
			Streams: []httpapi.StreamStatus{{Name: "orders", Shards: shards}},
		}})
	}
	stopped := shard.Status{Shard: "t_1", State: "stopped", Reason: "ids are used again"}
	first := serve(0, nil, shard.Status{Shard: "t_0", State: "running", Position: 7})
	second := serve(1, &standby.Status{Group: "shop.1", Member: "m1", Host: "h1", Works: true}, stopped)
	waits := serve(1, &standby.Status{Group: "shop.1", Member: "m2", Host: "h2", Working: "m1", WorkingHost: "h1"}, stopped)
	third := serve(2, nil, shard.Status{Shard: "t_2", State: "running"})
	_, port, _ := net.SplitHostPort(third)
	env := settingsOf{"BRIDGE_HTTP_ADDR": "127.0.0.1:" + port}

	got := mustCall(t, env, exitFine, "", "status --all "+first+","+second+","+waits+",127.0.0.1,"+first)
	want := first + `: share 0/3, runs since 2026-01-02T03:04:05Z, at-least-once
` + second + `: share 1/3, runs since 2026-01-02T03:04:05Z, at-least-once
standby group shop.1: this process, m1 on h1, works
` + waits + `: share 1/3, runs since 2026-01-02T03:04:05Z, at-least-once
standby group shop.1: this process, m2 on h2, waits; m1 on h1 works
` + third + `: share 2/3, runs since 2026-01-02T03:04:05Z, at-least-once
3 tables: 2 running, 1 stopped

PROCESS  STREAM  TABLE  STATE    POSITION  LAG      ROWS/S  MISSING  RECONCILED
0/3      orders  t_0    running  7         unknown  0       0        -
1/3      orders  t_1    stopped  0         unknown  0       0        -
2/3      orders  t_2    running  0         unknown  0       0        -

1/3: orders t_1, stopped
  ids are used again
`
	if got.out != want {
		t.Errorf("got\n%s\nwant\n%s", got.out, want)
	}
	if got := mustCall(t, env, exitFine, "", "status --state stopped --all "+first+","+second+","+third); strings.Contains(got.out, "t_0") || !strings.Contains(got.out, "t_1") || !strings.Contains(got.out, "3 tables") {
		t.Errorf("of one state: %s", got.out)
	}

	got = mustCall(t, env, exitFailed, "1 of 3 bridges did not answer", "status --all "+first+",127.0.0.1:1,"+third)
	if !strings.Contains(got.out, "127.0.0.1:1: no answer: ") || !strings.Contains(got.out, "no process that works on share 1/3 has answered") || !strings.Contains(got.out, "t_2") {
		t.Errorf("with one that is away: %s", got.out)
	}
	mustCall(t, env, exitFailed, "nobody that works on share 1/3 has answered", "status --all "+first+","+waits+","+third)
	mustCall(t, env, exitFailed, "no such host", "status --all "+first+",no-host.invalid")
	mustCall(t, env, exitFailed, `none of the 2 bridges that answered has a stream "none"`, "status --stream none --all "+first+","+third)

	var read statuses
	got = mustCall(t, env, exitFailed, "", "status --json --all "+first+",127.0.0.1:1")
	if err := json.Unmarshal([]byte(got.out), &read); err != nil || len(read.Processes) != 2 || read.Processes[0].Status.Streams[0].Shards[0].Shard != "t_0" ||
		read.Processes[1].Error == "" || read.Totals.Shards != 1 || strings.Join(read.Lacking, " ") != "1/3 2/3" {
		t.Errorf("%v: %s", err, got.out)
	}

	mustCall(t, env, exitUsage, "has an item without a host", "status --all "+first+",")
	mustCall(t, env, exitUsage, "do not go together", "status --watch --all "+first)
}
