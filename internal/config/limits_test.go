package config

import (
	"maps"
	"testing"
	"time"
)

// TestConnections: a source can have its own bound, none too.
func TestConnections(t *testing.T) {
	for own, want := range map[string]int{"-": 9, "12": 12, "0": 0} {
		all := load(t, several("BRIDGE_SOURCE_CONNECTIONS", "9", "BRIDGE_SOURCE_B_CONNECTIONS", own)).Sources
		if all[0].Connections != 9 || all[1].Connections != want {
			t.Errorf("%s: %d and %d connections", own, all[0].Connections, all[1].Connections)
		}
	}
	load(t, with("BRIDGE_SOURCE_CONNECTIONS", "7"))
}

func TestStaleAfter(t *testing.T) {
	cfg := load(t, with("BRIDGE_STREAM_ORDERS_STALE_AFTER", "10m", "BRIDGE_STREAM_ORDERS_MODIFIED", "m", "BRIDGE_STREAM_ORDERS_RECONCILE_INTERVAL", "1m"))
	if spec := cfg.Streams[0].Spec("t"); spec.StaleAfter != 10*time.Minute || spec.Zone == nil || len(cfg.Warnings) != 0 {
		t.Errorf("%+v, warned of %v", spec, cfg.Warnings)
	}
}

func TestChangesLimitsAlone(t *testing.T) {
	before := with("BRIDGE_RATE", "5")
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"BRIDGE_RATE", "6", true}, {"BRIDGE_RATE", "5", false}, {"BRIDGE_STREAM_ORDERS_RATE", "9", true}, {"BRIDGE_SOURCE_CONNECTIONS", "20", true},
		{"BRIDGE_STREAM_ORDERS_RECONCILE_RATE", "9", false}, {"BRIDGE_POLL_INTERVAL", "1s", false},
	} {
		after := maps.Clone(before)
		after[c.name] = c.value
		if got := load(t, before).ChangesLimitsAlone(load(t, after)); got != c.want {
			t.Errorf("%s=%s: %t", c.name, c.value, got)
		}
		after["BRIDGE_BATCH_ROWS"] = "17"
		if load(t, before).ChangesLimitsAlone(load(t, after)) {
			t.Errorf("%s with BATCH_ROWS changes limits alone", c.name)
		}
	}
}
