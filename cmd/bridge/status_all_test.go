package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/standby"
)

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
