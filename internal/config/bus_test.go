package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/tests/must"
)

// TestTheTemporaryFolder is found again, and is of one configuration and address alone.
func TestTheTemporaryFolder(t *testing.T) {
	folder := func(pairs ...string) string {
		t.Helper()
		return load(t, with(append([]string{"BRIDGE_CHECKPOINT_URL", "bus:"}, pairs...)...)).CheckpointPath
	}
	one := folder()
	if filepath.Dir(one) != filepath.Clean(os.TempDir()) || folder() != one {
		t.Errorf("folders %s and %s", one, folder())
	}
	if one == folder("BRIDGE_DOMAIN_ID", "other") || one == folder("BRIDGE_HTTP_ADDR", ":8081") || filepath.Dir(folder("BRIDGE_SHARE", "1/3")) != one {
		t.Error("two processes have one folder")
	}
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
			for _, pattern := range s.Patterns {
				must.OK(t, cfg.CanPublish(s, sample(pattern)))
			}
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

// TestSecretsOfSpans are kept out of logs: headers, and the password of the URL.
func TestSecretsOfSpans(t *testing.T) {
	secrets := &Redactor{}
	cfg, err := Load(with("BRIDGE_TRACE", "on", "OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20abcdef, x-team=orders",
		"OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:hidden-one@c").Environ(), secrets)
	if err != nil || !maps.Equal(cfg.Trace.Headers, map[string]string{"Authorization": "Bearer abcdef", "x-team": "orders"}) {
		t.Fatalf("%+v, %v", cfg, err)
	}
	if text := secrets.Clean("Bearer abcdef hidden-one"); text != redacted+" "+redacted {
		t.Error(text)
	}
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

// free are the variables in which the processes of a group may differ: how source and bus are
// reached, and what decides when and how fast something is published.
var free = []string{
	"SINK_URL", "ENV_FILE", "HTTP_ADDR", "HTTP_TOKEN", "HTTP_TLS_CERT", "HTTP_TLS_KEY", "HTTP_TLS_CA", "SERVE", "METRICS_BY_SHARD", "LOG_LEVEL", "LOG_FORMAT", "TRACE", "MAX_INFLIGHT_BYTES", "SHUTDOWN_TIMEOUT", "STANDBY",
	"MASK_KEY", // MASK tells one from another.
	"POLL_INTERVAL", "BATCH_ROWS", "STABILITY_WINDOW", "GAP_TTL", "RECONCILE_INTERVAL", "FULL_LIST_INTERVAL", "RECONCILE_RATE", "RATE", "SOURCE_CONNECTIONS", "DEAD_LETTER_LIMIT",
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

// TestChanges has configurations, and what else they are behind ">", with what follows from that.
func TestChanges(t *testing.T) {
	configtest.Recorded(t, "testdata/changes.txt", *update, func(t *testing.T, input []string) string {
		n := slices.IndexFunc(input, func(line string) bool { return strings.HasPrefix(line, ">") })
		all := slices.Clone(input[:n])
		for _, line := range input[n:] {
			all = append(all, strings.TrimPrefix(line, "> "))
		}
		before, after, said := load(t, changed(input[:n])), load(t, changed(all)), "a reload is fine\n"
		if _, err := before.Reloaded(after); err != nil {
			said = strings.Replace(err.Error(), "the configuration is wrong:\n  ", "a reload is refused: ", 1) + "\n"
		}
		if before.ChangesLimitsAlone(after) {
			said = "limits alone are others\n"
		}
		settings := func(lines []string) map[string]string {
			cfg, err := Load(changed(append([]string{"BRIDGE_STANDBY=a"}, lines...)).Environ(), &Redactor{})
			if err != nil {
				return make(map[string]string) // not every bus has groups
			}
			return cfg.Standby.Settings
		}
		a, b := settings(input[:n]), settings(all)
		for name := range a {
			b[name] += ""
		}
		for _, name := range slices.Sorted(maps.Keys(b)) {
			if a[name] != b[name] {
				said += "in a standby group it differs by " + name + "\n"
			}
		}
		return said
	})
}
