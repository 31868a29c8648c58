package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/driver"
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

func TestWhereCompactionLosesEvents(t *testing.T) {
	for name, c := range map[string]struct {
		set  []string
		want map[string]string
	}{
		"a capability stream of one table": {[]string{"BRIDGE_STREAM_ORDERS_TABLE", "orders", "BRIDGE_STREAM_ORDERS_KEY", "a,b"}, nil},
		"a release stream by id":           {[]string{"BRIDGE_STREAM_ORDERS_TABLE", "orders", "BRIDGE_STREAM_ORDERS_KIND", "release"}, nil},
		"a release stream with a key": {
			[]string{"BRIDGE_STREAM_ORDERS_TABLE", "orders", "BRIDGE_STREAM_ORDERS_KIND", "release", "BRIDGE_STREAM_ORDERS_KEY", "a"},
			map[string]string{"orders": "facts of their own"},
		},
		"several tables by id": {[]string{"BRIDGE_STREAM_ORDERS_TABLE", "orders_0,orders_1"}, map[string]string{"orders": "the id is the key"}},
		"several tables by id, with a topic each": {
			[]string{"BRIDGE_STREAM_ORDERS_TABLE", "orders_0,orders_1", "BRIDGE_STREAM_ORDERS_DESTINATION", "{table}"}, nil,
		},
		"several tables with a key": {
			[]string{"BRIDGE_STREAM_ORDERS_TABLE", "orders_0,orders_1", "BRIDGE_STREAM_ORDERS_KEY", "a"}, map[string]string{"orders": "moves from one to another"},
		},
		"two streams": {
			[]string{
				"BRIDGE_STREAMS", "orders,bills", "BRIDGE_STREAM_ORDERS_TABLE", "orders", "BRIDGE_STREAM_BILLS_TABLE", "bills",
				"BRIDGE_STREAM_BILLS_KIND", "capability", "BRIDGE_STREAM_ORDERS_DESTINATION", "all", "BRIDGE_STREAM_BILLS_DESTINATION", "all",
			},
			map[string]string{"all": "the streams orders, bills publish to it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := load(t, with(append([]string{"BRIDGE_SINK_URL", "kafka://k", "BRIDGE_STREAM_ORDERS_KIND", "capability"}, c.set...)...)).Uncompactable()
			if len(got) != len(c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			for topic, want := range c.want {
				if !strings.Contains(got[topic], want) {
					t.Errorf("%s: %q, want %q", topic, got[topic], want)
				}
			}
		})
	}
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

func TestPublishedSubjects(t *testing.T) {
	cfg := load(t, with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_STREAM_ORDERS_DESTINATION", "x.{type}.{key}", "BRIDGE_DEAD_LETTER", "dead",
		"BRIDGE_STREAM_ORDERS_EVENT_NAMES", "added:OrderAddedMessage"))
	want := []string{"dead", "x.OrderAddedMessage.*", "x.OrdersDeletedEvent.*", "x.OrdersModifiedEvent.*"}
	if got := cfg.Published(); !slices.Equal(got, want) {
		t.Errorf("published to %q, want %q", got, want)
	}
	if got := cfg.Subjects(); !slices.Equal(got, []string{"dead", "x.*.*"}) {
		t.Errorf("a stream is created with %q", got)
	}
}

func TestSubjectsOfADottedDomain(t *testing.T) {
	cfg := load(t, with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_DOMAIN_ID", "hangzhou.tgf", "BRIDGE_STREAM_ORDERS_KIND", "release"))
	if got, want := cfg.Published(), []string{"eiffel._.OrdersPublishedEvent._.hangzhou.tgf"}; !slices.Equal(got, want) {
		t.Errorf("published to %q, want %q", got, want)
	}
	if got, want := cfg.Subjects(), []string{"eiffel._.*._.hangzhou.tgf"}; !slices.Equal(got, want) {
		t.Errorf("a stream is created with %q, want %q", got, want)
	}
	want := []string{"eiffel._.OrdersPublishedEvent._.hangzhou%2Etgf", "eiffel._.OrdersPublishedEvent._.hangzhou.tgf"}
	if got := cfg.Readable(); !slices.Equal(got, want) {
		t.Errorf("read are %q, want %q", got, want)
	}
	plain := load(t, with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_STREAM_ORDERS_KIND", "release"))
	if got := plain.Readable(); !slices.Equal(got, plain.Published()) {
		t.Errorf("read are %q, published to %q", got, plain.Published())
	}
}

func TestDestinationsOfAStream(t *testing.T) {
	for _, c := range []struct {
		sink, destination string
		want              []string
	}{
		{"kafka://k", "x.{stream}", []string{"dead", "x.orders"}},
		{"kafka://k", "x.{table}", []string{"dead", "x.orders_0", "x.orders_1"}},
		{"nats://n", "x.{type}.{key}", []string{"dead", "x.OrdersAddedEvent.*", "x.OrdersDeletedEvent.*", "x.OrdersModifiedEvent.*"}},
	} {
		cfg := load(t, with("BRIDGE_SINK_URL", c.sink, "BRIDGE_STREAMS", "orders,bills", "BRIDGE_STREAM_BILLS_TABLE", "bills", "BRIDGE_STREAM_BILLS_KIND", "release",
			"BRIDGE_STREAM_ORDERS_DESTINATION", c.destination, "BRIDGE_STREAM_ORDERS_DEAD_LETTER", "dead"))
		if got := cfg.Destinations(&cfg.Streams[0]); !slices.Equal(got, c.want) {
			t.Errorf("%s at %s leads to %q, want %q", c.destination, c.sink, got, c.want)
		}
	}
}

func TestTombstones(t *testing.T) {
	const stream = "BRIDGE_STREAM_ORDERS_"
	for name, c := range map[string]struct {
		env   settingsOf
		want  string
		asked []string
	}{
		"the topic decides":                   {with(stream+"TABLE", "orders"), "auto", []string{"t"}},
		"on":                                  {with("BRIDGE_KAFKA_TOMBSTONES", "ON"), "on", nil},
		"a stream's own":                      {with("BRIDGE_KAFKA_TOMBSTONES", "on", stream+"KAFKA_TOMBSTONES", "off"), "off", nil},
		"a release stream has none":           {with(stream+"KIND", "release", stream+"KAFKA_TOMBSTONES", "on"), "off", nil},
		"NATS has none":                       {with("BRIDGE_SINK_URL", "nats://n1:4222", stream+"KAFKA_TOMBSTONES", "on"), "off", nil},
		"tables whose rows have the same ids": {with(), "off", nil},
		"the same, where a person says that it may": {with(stream+"KAFKA_TOMBSTONES", "on"), "on", nil},
	} {
		c.env[stream+"DESTINATION"] = "t"
		cfg := load(t, c.env)
		if got := cfg.Tombstones()(&cfg.Streams[0], "t"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := cfg.AskedTopics(); !slices.Equal(got, c.asked) {
			t.Errorf("%s: asked are %q, want %q", name, got, c.asked)
		}
	}
}

// traced loads a configuration with variables of OpenTelemetry.
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
			cfg, err := traced(t, &Redactor{}, c.variables...)
			if err != nil {
				t.Fatal(err)
			}
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
	if h, err := LoadHTTP(nil); err != nil || h.Token != nil {
		t.Errorf("%+v, %v", h, err)
	}
}
