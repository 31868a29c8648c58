package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/driver"
	"example.org/bridge/sink/kafka"
)

func TestConfig(t *testing.T) {
	t.Run("has the defaults of the reference", func(t *testing.T) {
		cfg := load(t, minimal())
		s := cfg.Streams[0]
		got := []any{
			cfg.CheckpointPath, cfg.HTTPAddr, cfg.LogLevel.String(), cfg.LogFormat, cfg.DomainID, cfg.MaxInflightBytes, cfg.ShutdownTimeout,
			s.PollInterval, s.BatchRows, s.StabilityWindow, s.GapPolicy, s.GapTTL, s.IDOrder,
			s.ReconcileInterval, s.ReconcileRate, s.ReconcileMaxDeletes, s.DeadLetter, s.DeadLetterLimit, s.OnBadValue, s.TimeZone.Location.String(),
			kafkaOf(cfg.Sink).Compression, kafkaOf(cfg.Sink).TLS == nil, s.ID, s.Start, s.Destination, strings.Join(kafkaOf(cfg.Sink).Brokers, " "),
			load(t, with("BRIDGE_SINK_URL", "nats://n1")).Streams[0].Destination,
		}
		want := []any{
			"bridge.db", "127.0.0.1:8080", "INFO", "", "bridge", driver.Size(32 << 20), 10 * time.Second,
			200 * time.Millisecond, 2000, time.Second, "late", 24 * time.Hour, "auto",
			30 * time.Minute, int64(0), Percent(0.1), "", 100, "null", "UTC",
			kafka.None, true, "id", Start{}, "{stream}", "k1:9093 k2:9092",
			"eiffel.{family}.{type}.{tag}.{domain}",
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("default %d is %v, want %v", i, got[i], want[i])
			}
		}
		if len(cfg.Warnings) != 0 {
			t.Errorf("warnings %v", cfg.Warnings)
		}
	})

	t.Run("takes every setting of a stream", func(t *testing.T) {
		s := load(t, with(
			"BRIDGE_STREAM_ORDERS_TABLE", "a, shop.b",
			"BRIDGE_STREAM_ORDERS_EVENT", "Order",
			"BRIDGE_STREAM_ORDERS_EVENT_NAMES", "added:OrderAddedMessage, modified:OrderAddedMessage",
			"BRIDGE_STREAM_ORDERS_FIELDS", "order_no:number, state,",
			"BRIDGE_STREAM_ORDERS_ID", "seq",
			"BRIDGE_STREAM_ORDERS_KEY", "order_no",
			"BRIDGE_STREAM_ORDERS_CREATED", "made",
			"BRIDGE_STREAM_ORDERS_MODIFIED", "made",
			"BRIDGE_STREAM_ORDERS_DELETED", "gone != a|b c",
			"BRIDGE_STREAM_ORDERS_DESTINATION", "shop.{table}",
			"BRIDGE_STREAM_ORDERS_START", "18446744073709551615",
		)).Streams[0]
		if s.Name != "orders" || s.Kind != event.Capability || !slices.Equal(s.Tables, []string{"a", "shop.b"}) || s.Event != "Order" {
			t.Errorf("%+v", s)
		}
		if s.EventNames[event.Added] != "OrderAddedMessage" || s.EventNames[event.Modified] != "OrderAddedMessage" {
			t.Errorf("event names %v", s.EventNames)
		}
		if !slices.Equal(s.Fields, []event.Field{{Column: "order_no", Member: "number"}, {Column: "state"}}) {
			t.Errorf("fields %v", s.Fields)
		}
		if !s.Deletion.Except || !slices.Equal(s.Deletion.Values, []string{"a", "b c"}) {
			t.Errorf("deletion %+v", s.Deletion)
		}
		if s.ID != "seq" || s.Created != "made" || s.Modified != "made" || s.Deleted != "gone" || s.Destination != "shop.{table}" {
			t.Errorf("%+v", s)
		}
		if s.Start != (Start{After: 1<<64 - 1}) {
			t.Errorf("start %+v", s.Start)
		}
	})

	t.Run("lets a stream override the global tuning, with zero too", func(t *testing.T) {
		env := with("BRIDGE_STREAMS", "orders,bills", "BRIDGE_STREAM_BILLS_TABLE", "b", "BRIDGE_STREAM_BILLS_KIND", "release",
			"BRIDGE_STABILITY_WINDOW", "5s", "BRIDGE_STREAM_BILLS_STABILITY_WINDOW", "0s",
			"BRIDGE_TIME_ZONE", "Asia/Shanghai", "BRIDGE_STREAM_ORDERS_TIME_ZONE", "UTC")
		streams := load(t, env).Streams
		if streams[0].StabilityWindow != 5*time.Second || streams[1].StabilityWindow != 0 {
			t.Errorf("windows %s and %s", streams[0].StabilityWindow, streams[1].StabilityWindow)
		}
		if streams[0].TimeZone.Location.String() != "UTC" || streams[1].TimeZone.Location.String() != "Asia/Shanghai" {
			t.Errorf("zones %s and %s", streams[0].TimeZone.Location, streams[1].TimeZone.Location)
		}
	})

	t.Run("takes a variable that is empty for one that is not set", func(t *testing.T) {
		cfg := load(t, with("BRIDGE_POLL_INTERVAL", "", "BRIDGE_KAFKA_TLS", " ", "BRIDGE_STREAM_ORDERS_START", "", "BRIDGE_SOMETHING", ""))
		if cfg.Streams[0].PollInterval != 200*time.Millisecond || kafkaOf(cfg.Sink).TLS != nil {
			t.Errorf("%+v", cfg)
		}
	})

	t.Run("does not mind the letter case of a value that is one of a list", func(t *testing.T) {
		cfg := load(t, with("BRIDGE_LOG_LEVEL", "DEBUG", "BRIDGE_KAFKA_COMPRESSION", "ZSTD", "BRIDGE_STREAM_ORDERS_KIND", "Capability"))
		if cfg.LogLevel.String() != "DEBUG" || kafkaOf(cfg.Sink).Compression != kafka.Zstd || cfg.Streams[0].Kind != event.Capability {
			t.Errorf("%+v", cfg)
		}
	})
}

func TestStreamPrefixes(t *testing.T) {
	two := func(pairs ...string) settingsOf {
		return with(append([]string{
			"BRIDGE_STREAMS", "a,a_b", "BRIDGE_STREAM_ORDERS_TABLE", "-", "BRIDGE_STREAM_ORDERS_KIND", "-",
			"BRIDGE_STREAM_A_TABLE", "ta", "BRIDGE_STREAM_A_KIND", "release",
			"BRIDGE_STREAM_A_B_TABLE", "tab", "BRIDGE_STREAM_A_B_KIND", "capability",
		}, pairs...)...)
	}
	t.Run("the longest name wins where two share a prefix", func(t *testing.T) {
		streams := load(t, two()).Streams
		if streams[0].Tables[0] != "ta" || streams[1].Tables[0] != "tab" {
			t.Errorf("tables %v and %v", streams[0].Tables, streams[1].Tables)
		}
	})
	t.Run("no two settings could be taken for one another", func(t *testing.T) {
		all := streamVariables("")
		for _, long := range all {
			for _, short := range all {
				if strings.HasSuffix(long.Name, "_"+strings.TrimPrefix(short.Name, StreamPrefix(""))) && long.Name != short.Name && !strings.HasSuffix(long.Name, reconcileRate) {
					t.Errorf("%s ends as %s does: a stream name could hide it", long.Name, short.Name)
				}
			}
		}
	})
}
