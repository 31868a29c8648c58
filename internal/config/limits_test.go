package config

import (
	"maps"
	"testing"
	"time"
)

func TestConnections(t *testing.T) {
	t.Run("too few for reads that must not wait for one another are refused", func(t *testing.T) {
		wantFault(t, with("BRIDGE_SOURCE_CONNECTIONS", "6"), "BRIDGE_SOURCE_CONNECTIONS", "7 or more")
		wantFault(t, with("BRIDGE_SOURCE_CONNECTIONS", "7", "BRIDGE_SERVE", "true"), "BRIDGE_SOURCE_CONNECTIONS", "8 or more", "BRIDGE_SERVE")
		load(t, with("BRIDGE_SOURCE_CONNECTIONS", "7"))
	})
	t.Run("a source can have its own", func(t *testing.T) {
		two := func(pairs ...string) settingsOf {
			return with(append([]string{
				"BRIDGE_SOURCE_URL", "-", "BRIDGE_SOURCES", "a,b", "BRIDGE_SOURCE_A_URL", "mysql://u@h/a", "BRIDGE_SOURCE_B_URL", "mysql://u@h/b",
				"BRIDGE_STREAM_ORDERS_TABLE", "a/t,b/t", "BRIDGE_SOURCE_CONNECTIONS", "9",
			}, pairs...)...)
		}
		all := load(t, two("BRIDGE_SOURCE_B_CONNECTIONS", "12")).Sources
		if all[0].Connections != 9 || all[1].Connections != 12 {
			t.Errorf("%d and %d connections", all[0].Connections, all[1].Connections)
		}
		if all := load(t, two("BRIDGE_SOURCE_B_CONNECTIONS", "0")).Sources; all[1].Connections != 0 {
			t.Errorf("%d connections, want no limit", all[1].Connections)
		}
		wantFault(t, two("BRIDGE_SOURCE_B_CONNECTIONS", "3"), "BRIDGE_SOURCE_B_CONNECTIONS", "7 or more")
	})
}

func TestStaleAfter(t *testing.T) {
	wantFault(t, with("BRIDGE_STREAM_ORDERS_STALE_AFTER", "10m"), "BRIDGE_STREAM_ORDERS_STALE_AFTER", "BRIDGE_STREAM_ORDERS_MODIFIED")
	wantFault(t, with("BRIDGE_STREAM_ORDERS_STALE_AFTER", "10m", "BRIDGE_STREAM_ORDERS_MODIFIED", "m", "BRIDGE_STREAM_ORDERS_KIND", "release"),
		"BRIDGE_STREAM_ORDERS_STALE_AFTER", "capability")
	wantFault(t, with("BRIDGE_STREAM_ORDERS_STALE_AFTER", "1s", "BRIDGE_STREAM_ORDERS_MODIFIED", "m"), "BRIDGE_STREAM_ORDERS_STALE_AFTER", "out of range")
	fit := with("BRIDGE_STREAM_ORDERS_STALE_AFTER", "10m", "BRIDGE_STREAM_ORDERS_MODIFIED", "m", "BRIDGE_STREAM_ORDERS_RECONCILE_INTERVAL", "1m")
	cfg := load(t, fit)
	if spec := cfg.Streams[0].Spec("t"); spec.StaleAfter != 10*time.Minute || spec.Zone == nil || len(cfg.Warnings) != 0 {
		t.Errorf("%+v, warned of %v", spec, cfg.Warnings)
	}
	delete(fit, "BRIDGE_STREAM_ORDERS_RECONCILE_INTERVAL")
	if w := load(t, fit).Warnings; len(w) != 1 || w[0].Variable != "BRIDGE_STREAM_ORDERS_STALE_AFTER" {
		t.Errorf("warned of %v", w)
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
