package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"bridge/internal/httpapi"
	"bridge/internal/httpapi/httpapitest"
)

func TestStatusCommand(t *testing.T) {
	lag, since := 1.25, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	state := httpapi.Status{
		Started: since, Delivery: "at-least-once",
		Streams: []httpapi.StreamStatus{{Name: "orders", Shards: []httpapi.ShardStatus{
			{Shard: "t_0", State: "running", Position: 17, LagSeconds: &lag}, {Shard: "t_1", State: "waiting", LastError: httpapi.Given("no such\ntable")},
		}}},
	}
	at := httpapitest.Serve(t, &httpapitest.Daemon{State: state})
	got := outcome{}.call(settingsOf{"BRIDGE_HTTP_ADDR": at}, "status")
	want := `runs since 2026-01-02T03:04:05Z, at-least-once

STREAM  SHARD  STATE    POSITION  LAG      LAST ERROR
orders  t_0    running  17        1.2 s    
orders  t_1    waiting  0         unknown  no such table
`
	if got.status != exitFine || got.out != want {
		t.Errorf("%+v", got)
	}
	for name, c := range map[string]struct {
		standby httpapi.StandbyStatus
		want    string
	}{
		"works":         {httpapi.StandbyStatus{Works: true, Since: &since}, "this process, m1 on h1, works since 2026-01-02T03:04:05Z\n"},
		"waits":         {httpapi.StandbyStatus{Working: httpapi.Given("m2"), WorkingHost: "h2", Since: &since}, "this process, m1 on h1, waits; m2 on h2 works since 2026-01-02T03:04:05Z\n"},
		"does not know": {httpapi.StandbyStatus{Error: httpapi.Given("no answer")}, "waits; who works is not known now\n  no answer\n"},
		"lists the others": {httpapi.StandbyStatus{Works: true, Waiting: []httpapi.WaitingMember{
			{Member: "m1", Host: "h1"}, {Member: "m2", Host: "h2", Ready: true}, {Member: "m3", Host: "h3", Differing: []string{"A", "B"}}, {Member: "m4", Host: "h4"},
		}}, "works\n  m2 on h2 waits, ready\n  m3 on h3 waits, refused, because these differ: A, B\n  m4 on h4 waits, not ready: it has not read the bus to its end\n"},
		"is refused for what differs": {httpapi.StandbyStatus{Working: httpapi.Given("m2"), Differing: []string{"A", "B"}}, "it is refused, because these differ: A, B\n"},
	} {
		t.Run("a standby "+name, func(t *testing.T) {
			one := state
			c.standby.Group, c.standby.Member, c.standby.Host = "g", "m1", "h1"
			one.Standby = &c.standby
			at := httpapitest.Serve(t, &httpapitest.Daemon{State: one})
			if got := (outcome{}).call(settingsOf{"BRIDGE_HTTP_ADDR": at}, "status"); !strings.Contains(got.out, "standby group g: ") || !strings.Contains(got.out, c.want) {
				t.Errorf("%+v", got)
			}
			var read httpapi.Status
			if got := (outcome{}).call(settingsOf{"BRIDGE_HTTP_ADDR": at}, "status", "--json"); json.Unmarshal([]byte(got.out), &read) != nil || read.Standby.Group != "g" {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("says that nothing answers", func(t *testing.T) {
		if got := (outcome{}).call(settingsOf{"BRIDGE_HTTP_ADDR": "127.0.0.1:1"}, "status"); got.status != exitFailed || !strings.Contains(got.err, "127.0.0.1:1") {
			t.Errorf("%+v", got)
		}
	})
}
