package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/driver"
	"example.org/bridge/tests/must"
)

func TestProgressOnTheBus(t *testing.T) {
	t.Parallel()
	folder := func(pairs ...string) string {
		t.Helper()
		cfg := load(t, with(append([]string{"BRIDGE_CHECKPOINT_URL", "bus:"}, pairs...)...))
		if cfg.CheckpointTopic != "bridge-progress" {
			t.Errorf("the topic is %q", cfg.CheckpointTopic)
		}
		return cfg.CheckpointPath
	}
	t.Run("the folder is found again, and of one configuration and address alone", func(t *testing.T) {
		one := folder()
		if filepath.Dir(one) != filepath.Clean(os.TempDir()) || folder() != one {
			t.Errorf("folders %s and %s", one, folder())
		}
		if one == folder("BRIDGE_DOMAIN_ID", "other") || one == folder("BRIDGE_HTTP_ADDR", ":8081") {
			t.Error("two processes have one folder")
		}
		if got := folder("BRIDGE_CHECKPOINT_URL", "bus:///var/lib/bridge/cache"); got != "/var/lib/bridge/cache" {
			t.Errorf("the folder is %s", got)
		}
		if got := folder("BRIDGE_CHECKPOINT_URL", "bus:cache"); got != "cache" {
			t.Errorf("the folder is %s", got)
		}
	})
	t.Run("processes of a group agree on it", func(t *testing.T) {
		settings := func(url string) string {
			var names []string
			for name := range load(t, with("BRIDGE_STANDBY", "a", "BRIDGE_CHECKPOINT_URL", url)).Standby.Settings {
				names = append(names, name)
			}
			return strings.Join(names, ",")
		}
		if !strings.Contains(settings("bus:///a"), "CHECKPOINT_URL") || strings.Contains(settings("file:a"), "CHECKPOINT") {
			t.Errorf("%s, %s", settings("bus:///a"), settings("file:a"))
		}
	})
}

// TestWhereEventsGo has configurations with their topics or subjects, and with where compaction
// would lose events, or a tombstone other entities.
func TestWhereEventsGo(t *testing.T) {
	configtest.Recorded(t, "testdata/destinations.txt", *update, func(t *testing.T, input []string) string {
		cfg := load(t, changed(input))
		var said strings.Builder
		say := func(what string, list []string) { fmt.Fprintln(&said, what+":", strings.Join(list, " ")) }
		for i := range cfg.Streams {
			s := &cfg.Streams[i]
			say(s.Name, cfg.Destinations(s))
			for _, topic := range cfg.Destinations(s) {
				if mode := cfg.Tombstones()(s, topic); mode != tombstonesOff {
					say("tombstones of "+s.Name+" on "+topic, []string{mode})
				}
			}
		}
		if !cfg.Sink.Destinations.Topics {
			say("published", cfg.Published())
			say("a stream is created with", cfg.Subjects())
			say("read", cfg.Readable())
			return said.String()
		}
		if asked := cfg.AskedTopics(); asked != nil {
			say("asked", asked)
		}
		reasons := cfg.Uncompactable()
		for _, topic := range slices.Sorted(maps.Keys(reasons)) {
			say("compaction of "+topic, []string{reasons[topic]})
		}
		return said.String()
	})
}

func TestDelivery(t *testing.T) {
	t.Run("exactly-once on Kafka has the domain's transactional id, or its own", func(t *testing.T) {
		env := with("BRIDGE_DELIVERY", "exactly-once", "BRIDGE_DOMAIN_ID", "shop")
		s := load(t, env).Sink
		if k := kafkaOf(s); !s.ExactlyOnce || s.Delivery() != ExactlyOnce || k.TransactionalID != "bridge.shop" || k.TransactionInterval.Milliseconds() != 100 {
			t.Errorf("got %+v", s)
		}
		env["BRIDGE_KAFKA_TRANSACTIONAL_ID"] = "mine"
		if id := kafkaOf(load(t, env).Sink).TransactionalID; id != "mine" {
			t.Errorf("got %q", id)
		}
	})
	t.Run("exactly-once on NATS needs the stream, and has the domain's claim subject, or its own", func(t *testing.T) {
		env := with("BRIDGE_SINK_URL", "nats://host", "BRIDGE_DELIVERY", "exactly-once", "BRIDGE_DOMAIN_ID", "shop.eu west")
		env["BRIDGE_NATS_STREAM"] = "EVENTS"
		if s := load(t, env).Sink; !s.ExactlyOnce || natsOf(s).Claim != "bridge.claim.shop.eu%20west" {
			t.Errorf("got %+v", s)
		}
		env["BRIDGE_NATS_CLAIM_SUBJECT"] = "events.claim"
		if claim := natsOf(load(t, env).Sink).Claim; claim != "events.claim" {
			t.Errorf("got %q", claim)
		}
	})
}

func traced(t *testing.T, secrets *Redactor, variables ...string) (*Config, error) {
	t.Helper()
	return Load(append(with("BRIDGE_TRACE", "on").Environ(), variables...), secrets)
}

func TestTrace(t *testing.T) {
	t.Run("is off by default, whatever OpenTelemetry's variables say", func(t *testing.T) {
		cfg, err := Load(append(with().Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=nonsense"), &Redactor{})
		if err != nil || cfg.Trace != nil {
			t.Errorf("%+v, %v", cfg, err)
		}
	})
	for name, c := range map[string]struct {
		variables []string
		want      Trace
	}{
		"has defaults": {nil, Trace{Endpoint: "http://localhost:4318/v1/traces", Timeout: 10 * time.Second}},
		"reads the variables of all signals": {
			[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=https://c.example/otlp/", "OTEL_EXPORTER_OTLP_TIMEOUT=2500", "OTEL_EXPORTER_OTLP_CERTIFICATE=/ca", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"},
			Trace{Endpoint: "https://c.example/otlp/v1/traces", Timeout: 2500 * time.Millisecond, TLS: driver.TLS{CA: "/ca"}},
		},
		"those of traces win, and have the whole path": {
			[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://a", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://b/in", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/c", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY=/k"},
			Trace{Endpoint: "http://b/in", Timeout: 10 * time.Second, TLS: driver.TLS{Cert: "/c", Key: "/k"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := must.Get(traced(t, &Redactor{}, c.variables...))(t)
			got := *cfg.Trace
			if got.Endpoint != c.want.Endpoint || got.Timeout != c.want.Timeout || got.TLS != c.want.TLS || got.Headers != nil {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	t.Run("keeps headers and the password of the URL out of logs", func(t *testing.T) {
		secrets := &Redactor{}
		cfg, err := traced(t, secrets, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20abcdef, x-team=orders", "OTEL_EXPORTER_OTLP_ENDPOINT=http://u:hidden-one@c")
		if err != nil || !maps.Equal(cfg.Trace.Headers, map[string]string{"Authorization": "Bearer abcdef", "x-team": "orders"}) {
			t.Fatalf("%+v, %v", cfg, err)
		}
		if text := secrets.Clean("Bearer abcdef hidden-one"); text != redacted+" "+redacted {
			t.Error(text)
		}
	})
}

func TestHTTPToken(t *testing.T) {
	const variable, token = "BRIDGE_HTTP_TOKEN", "0123456789abcdef"
	t.Run("stands in the environment", func(t *testing.T) {
		if got, err := load(t, with(variable, token)).HTTPToken(); err != nil || got != token {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("is read again from its file, and a short one is refused", func(t *testing.T) {
		path := secretFile(t, token+"\n")
		read := load(t, with(variable+"_FILE", path)).HTTPToken
		if got, err := read(); err != nil || got != token {
			t.Fatalf("%q, %v", got, err)
		}
		for text, want := range map[string]string{token + "0\n": "", "short\n": "fewer than 16 characters", "\n": "is empty"} {
			rewrite(t, path, text)
			got, err := read()
			if want == "" && (err != nil || got != strings.TrimSpace(text)) || want != "" && (err == nil || got != "" || !strings.Contains(err.Error(), want)) {
				t.Errorf("%q: %q, %v", text, got, err)
			}
		}
	})
}

// TestACommandReadsFewVariables: those of HTTP alone, and no file before a request needs it.
func TestACommandReadsFewVariables(t *testing.T) {
	h, err := LoadHTTP([]string{"BRIDGE_HTTP_ADDR=:81", "BRIDGE_HTTP_TOKEN_FILE=/not/there", "BRIDGE_HTTP_TLS_CERT=/not/there", "BRIDGE_TYPO=1"})
	if err != nil || h.Addr != "127.0.0.1:81" || h.TLS.Cert != "/not/there" {
		t.Fatalf("%+v, %v", h, err)
	}
	if _, err := h.Token(); err == nil || !strings.Contains(err.Error(), "BRIDGE_HTTP_TOKEN_FILE") {
		t.Error(err)
	}
	for text, want := range map[string]string{"": "127.0.0.1:8080", "0.0.0.0:81": "127.0.0.1:81", "[::]:81": "[::1]:81", "[2001:db8::]:1": "[2001:db8::]:1"} {
		if h, err := LoadHTTP([]string{"BRIDGE_HTTP_ADDR=" + text}); err != nil || h.Addr != want || h.Token != nil {
			t.Errorf("%q: %+v, %v, want %q", text, h, err, want)
		}
	}
}

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
	"POLL_INTERVAL", "BATCH_ROWS", "STABILITY_WINDOW", "GAP_TTL", "RECONCILE_INTERVAL", "FULL_LIST_INTERVAL", "RECONCILE_RATE", "RATE", "SOURCE_CONNECTIONS", "RECONCILE_MAX_DELETES", "DEAD_LETTER_LIMIT",
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
