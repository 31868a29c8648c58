package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStandby(t *testing.T) {
	t.Run("a group has its name, its timeout, and no value that could be a secret", func(t *testing.T) {
		s := load(t, with("BRIDGE_STANDBY", "orders_1", "BRIDGE_STANDBY_TIMEOUT", "20s")).Standby
		if s.Group != "orders_1" || s.Timeout != 20*time.Second {
			t.Errorf("got %+v", s)
		}
		for name, hash := range s.Settings {
			if len(hash) != 8 {
				t.Errorf("%s has %q", name, hash)
			}
		}
	})
	t.Run("a start that all processes know is fine", func(t *testing.T) {
		load(t, with("BRIDGE_STANDBY", "a", "BRIDGE_STREAM_ORDERS_START", "latest", "BRIDGE_CHECKPOINT_URL", "bus:"))
		load(t, with("BRIDGE_STANDBY", "a", "BRIDGE_STREAM_ORDERS_START", "100"))
	})
}

// free are the variables in which the processes of a group may differ: how source and bus are
// reached, and what decides when and how fast something is published.
var free = []string{
	"SINK_URL", "ENV_FILE", "HTTP_ADDR", "HTTP_TOKEN", "HTTP_TLS_CERT", "HTTP_TLS_KEY", "HTTP_TLS_CA", "SERVE", "METRICS_BY_SHARD", "LOG_LEVEL", "LOG_FORMAT", "TRACE", "MAX_INFLIGHT_BYTES", "SHUTDOWN_TIMEOUT", "STANDBY",
	"MASK_KEY", // MASK tells one from another.
	"POLL_INTERVAL", "BATCH_ROWS", "STABILITY_WINDOW", "GAP_TTL", "RECONCILE_INTERVAL", "RECONCILE_RATE", "RATE", "SOURCE_CONNECTIONS", "RECONCILE_MAX_DELETES", "DEAD_LETTER_LIMIT",
	"KAFKA_COMPRESSION", "KAFKA_TRANSACTION_INTERVAL", "KAFKA_TLS", "KAFKA_TLS_CA", "KAFKA_TLS_CERT", "KAFKA_TLS_KEY",
	"KAFKA_SASL_MECHANISM", "KAFKA_SASL_USERNAME", "KAFKA_SASL_PASSWORD", "KAFKA_SASL_TOKEN", "KAFKA_SASL_AWS_REGION",
	"NATS_STREAM_REPLICAS", "NATS_STREAM_MAX_AGE", "NATS_STREAM_MAX_BYTES", "NATS_STREAM_STORAGE", "NATS_STREAM_DUPLICATE_WINDOW",
	"NATS_CREATE_STREAM", "NATS_CREDS", "NATS_NKEY", "NATS_TLS_CA", "NATS_TLS_CERT", "NATS_TLS_KEY", "NATS_TLS_HANDSHAKE_FIRST", "NATS_DOMAIN",
}

// TestEveryVariableAgreesOrIsFree: whether a new variable may differ has to be decided.
func TestEveryVariableAgreesOrIsFree(t *testing.T) {
	cfg := load(t, with("BRIDGE_STANDBY", "a"))
	global, stream := cfg.agreed(), cfg.Streams[0].agreed()
	maps.Copy(global, load(t, with("BRIDGE_SINK_URL", "nats://n")).agreed())
	for _, v := range globalVariables() {
		name := strings.TrimPrefix(v.Name, prefix)
		_, ofProcess := global[name]
		_, ofStream := stream[name]
		if (ofProcess || ofStream) == slices.Contains(free, name) {
			t.Errorf("%s: agreed by the process %t, by streams %t, free %t", v.Name, ofProcess, ofStream, slices.Contains(free, name))
		}
	}
	for _, v := range streamVariables("orders") {
		name := strings.TrimPrefix(v.Name, StreamPrefix("orders"))
		if _, agreed := stream[name]; agreed == slices.Contains(free, name) {
			t.Errorf("%s: agreed %t", v.Name, agreed)
		}
	}
}

// TestWhatDiffersIsNamed sets one variable after the other to another value.
func TestWhatDiffersIsNamed(t *testing.T) {
	settings := func(pairs ...string) map[string]string {
		return load(t, with(append([]string{"BRIDGE_STANDBY", "a", "BRIDGE_STREAM_ORDERS_KEY", "k"}, pairs...)...)).Standby.Settings
	}
	base := settings()
	differing := func(other map[string]string) (names []string) {
		for name := range maps.Keys(other) {
			if other[name] != base[name] {
				names = append(names, name)
			}
		}
		for name := range maps.Keys(base) {
			if _, there := other[name]; !there {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	for pair, want := range map[string]string{
		"BRIDGE_DOMAIN_ID=d": "BRIDGE_DOMAIN_ID", "BRIDGE_STREAM_ORDERS_KEY=k,l": "BRIDGE_STREAM_ORDERS_KEY", "BRIDGE_STREAM_ORDERS_FIELDS=k:l": "BRIDGE_STREAM_ORDERS_FIELDS",
		"BRIDGE_STREAM_ORDERS_FILTER=a = 1": "BRIDGE_STREAM_ORDERS_FILTER",
		"BRIDGE_GAP_POLICY=hold":            "BRIDGE_STREAM_ORDERS_GAP_POLICY", "BRIDGE_STREAM_ORDERS_GAP_POLICY=hold": "BRIDGE_STREAM_ORDERS_GAP_POLICY",
		"BRIDGE_DELIVERY=exactly-once": "BRIDGE_DELIVERY BRIDGE_KAFKA_TRANSACTIONAL_ID", "BRIDGE_STREAM_ORDERS_KEY=": "BRIDGE_STREAM_ORDERS_KEY",
		"BRIDGE_SOURCE_URL=mysql://reader:other@other/other": "BRIDGE_SOURCE_URL",
		// The same otherwise written, another login and host, and what decides nothing.
		"BRIDGE_STREAM_ORDERS_TABLE=orders_0,orders_1": "", "BRIDGE_SOURCE_URL=mysql://a:b@c/shop": "", "BRIDGE_STREAM_ORDERS_ID=id": "",
		"BRIDGE_GAP_POLICY=LATE": "", "BRIDGE_BATCH_ROWS=7": "",
	} {
		name, value, _ := strings.Cut(pair, "=")
		if got := strings.Join(differing(settings(name, value)), " "); got != want {
			t.Errorf("%s: %q differ, want %q", pair, got, want)
		}
	}
}
