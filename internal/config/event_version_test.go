package config

import (
	"testing"
)

func TestEventVersion(t *testing.T) {
	t.Run("it is that of the schemas unless it is set", func(t *testing.T) {
		if got := load(t, minimal()).Streams[0].Version; got != "1.0.0" {
			t.Errorf("got %q", got)
		}
		cfg := load(t, with("BRIDGE_STREAM_ORDERS_EVENT_VERSION", "2.0.10"))
		e, err := cfg.Encoder(&cfg.Streams[0], cfg.Streams[0].Tables[0])
		if err != nil || e.Version() != "2.0.10" {
			t.Errorf("got %v, %v", e, err)
		}
	})
	t.Run("anything but three numbers is refused", func(t *testing.T) {
		for _, text := range []string{"1", "v1.0.0", "1.0.0+build", "1.0.01", "1..0"} {
			wantFault(t, with("BRIDGE_STREAM_ORDERS_EVENT_VERSION", text), "BRIDGE_STREAM_ORDERS_EVENT_VERSION", "three numbers")
		}
	})
}
