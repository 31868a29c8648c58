package config

import (
	"maps"
	"strings"
	"testing"
	"time"
)

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
			Trace{Endpoint: "https://c.example/otlp/v1/traces", Timeout: 2500 * time.Millisecond, TLS: TLS{CA: "/ca"}},
		},
		"those of traces win, and have the whole path": {
			[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://a", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://b/in", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/c", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY=/k"},
			Trace{Endpoint: "http://b/in", Timeout: 10 * time.Second, TLS: TLS{Cert: "/c", Key: "/k"}},
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
	for variable, hint := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317":       "http://host:port",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://c":       "http://host:port",
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                 "http/protobuf",
		"OTEL_EXPORTER_OTLP_TIMEOUT=10s":                   "milliseconds",
		"OTEL_EXPORTER_OTLP_HEADERS=secret-without-a-name": "name=value",
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/c":         "belong together",
	} {
		t.Run("refuses "+variable, func(t *testing.T) {
			_, err := traced(t, &Redactor{}, variable)
			if err == nil || !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "secret-without") {
				t.Errorf("got %v", err)
			}
		})
	}
}
