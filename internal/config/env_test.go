package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"example.org/bridge/internal/config/configtest"
	kafkadriver "example.org/bridge/internal/driver/kafka"
	natsdriver "example.org/bridge/internal/driver/nats"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/kafka"
)

// The environments of tests.
type settingsOf = configtest.Env

var minimal, with = configtest.Minimal, configtest.With

// load reads a configuration that must be right.
func load(t *testing.T, env settingsOf) *Config {
	t.Helper()
	cfg, err := Load(env.Environ(), &Redactor{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// kafkaOf and natsOf return the options with which the bus is opened.
func kafkaOf(s Sink) kafka.Options    { return s.Driver.(*kafkadriver.Driver).Options }
func natsOf(s Sink) jetstream.Options { return s.Driver.(*natsdriver.Driver).Options }

func TestStreamLoggerNamesTheVariablesOfItsStream(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: new(Redactor).Attr}))
	one := StreamLogger(logger, "orders").With("shard", "items")
	one.Error("shard stopped", "error", fmt.Errorf("read items: %w", option.Errorf("no column %q, which %s names", "x", option.Created)), "rows", 3)
	one.Warn("no name", "error", errors.New("EOF"))
	for _, want := range []string{"which BRIDGE_STREAM_ORDERS_CREATED names", "stream=orders shard=items", "rows=3", "error=EOF"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

func TestEventVersion(t *testing.T) {
	if got := load(t, minimal()).Streams[0].Version; got != "1.0.0" {
		t.Errorf("without one it is %q", got)
	}
	cfg := load(t, with("BRIDGE_STREAM_ORDERS_EVENT_VERSION", "2.0.10"))
	e, err := cfg.Encoder(&cfg.Streams[0], cfg.Streams[0].Tables[0])
	if err != nil || e.Version() != "2.0.10" {
		t.Errorf("got %v, %v", e, err)
	}
}
