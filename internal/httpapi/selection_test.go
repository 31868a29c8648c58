package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
)

// ofManyTables is a daemon with 2,000 tables, of which a few are not running, and a stream beside.
func ofManyTables() *httpapitest.Daemon {
	shards := make([]httpapi.ShardStatus, 2000)
	for i := range shards {
		lag := float64(i % 10)
		shards[i] = httpapi.ShardStatus{Shard: fmt.Sprintf("Orders_%04d", i), State: "running", LagSeconds: &lag, Reconcile: &httpapi.ReconcileStatus{}}
	}
	shards[7].State, shards[1204].State, shards[1300].State = "waiting", "stopped", "waiting"
	shards[5].LagSeconds = nil
	dry := &httpapi.ReconcileReport{DryRun: true, Absent: 30, Differences: make([]httpapi.DifferenceStatus, 100)}
	for i := range dry.Differences {
		dry.Differences[i] = httpapi.DifferenceStatus{What: "modified", Row: uint64(i)}
	}
	dry.Differences[99].What = "deleted"
	shards[7].Reconcile = &httpapi.ReconcileStatus{LastDryRun: dry}
	return &httpapitest.Daemon{State: httpapi.Status{Started: time.Now(), Streams: []httpapi.StreamStatus{
		{Name: "orders", State: "stopped", Shards: shards}, {Name: "bills", State: "running", Shards: []httpapi.ShardStatus{{Shard: "bills", State: "running"}}},
	}}}
}

func TestSelectionOfShards(t *testing.T) {
	d := ofManyTables()
	for _, c := range []struct {
		query, listed string
		matching      int
	}{
		{"?limit=5", "Orders_1204 Orders_0007 Orders_1300 Orders_0005 Orders_0009 | bills", 2000},
		{"?limit=2&offset=3", "Orders_0005 Orders_0009 |", 2000},
		{"?limit=1&offset=5000", "|", 2000},
		{"?limit=0", "|", 2000},
		{"?state=waiting", "Orders_0007 Orders_1300 |", 2},
		{"?contains=ers_120&limit=2", "Orders_1204 Orders_1209 |", 10},
		{"?stream=bills", "| bills", 0},
		{"?stream=none", "|", 0},
	} {
		t.Run(c.query, func(t *testing.T) {
			code, body := httpapitest.Request(t, d, "GET", "/api/v1/status"+c.query)
			var status httpapi.Status
			if err := json.Unmarshal([]byte(body), &status); err != nil || code != 200 {
				t.Fatalf("%d, %v", code, err)
			}
			var names []string
			for _, stream := range status.Streams {
				var list []string
				for _, s := range stream.Shards {
					list = append(list, s.Shard)
				}
				names = append(names, strings.Join(list, " "))
			}
			sum := status.Streams[0].Summary
			if got := strings.TrimSpace(strings.Join(names, " | ")); got != c.listed || sum.Matching != c.matching {
				t.Errorf("lists %q of %d, want %q of %d", got, sum.Matching, c.listed, c.matching)
			}
			if sum.Shards != 2000 || sum.States["waiting"] != 2 || sum.States["running"] != 1997 || *sum.LagSeconds != 9 || sum.LagUnknown != 1 {
				t.Errorf("the summary is not about all shards: %+v", sum)
			}
			if strings.Contains(body, `"shards":null`) {
				t.Error("a list is null")
			}
		})
	}
	if _, body := httpapitest.Request(t, ofManyTables(), "GET", "/api/v1/status?limit=20&examples=0"); len(body) > 40<<10 {
		t.Errorf("what the page asks for has %d bytes", len(body))
	}
	t.Run("what is listed does not change the daemon", func(t *testing.T) {
		if s := d.State.Streams[0]; len(s.Shards) != 2000 || s.Shards[0].Shard != "Orders_0000" || s.Summary != nil || len(s.Shards[7].Reconcile.LastDryRun.Differences) != 100 {
			t.Errorf("%d shards, %+v", len(s.Shards), s.Summary)
		}
	})
	t.Run("examples are bounded, deletes first", func(t *testing.T) {
		_, body := httpapitest.Request(t, d, "GET", "/api/v1/status?state=waiting&examples=3")
		var status httpapi.Status
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			t.Fatal(err)
		}
		dry, sum := status.Streams[0].Shards[0].Reconcile.LastDryRun, status.Streams[0].Summary.Reconcile.DryRun
		if len(dry.Differences) != 3 || len(sum.Differences) != 3 || sum.Absent != 30 || sum.Differences[0].What != "deleted" || sum.Differences[0].Shard != "Orders_0007" {
			t.Errorf("%+v, %+v", dry, sum)
		}
	})
}
