package config

import (
	"slices"
	"testing"
)

func TestTombstones(t *testing.T) {
	const stream = "BRIDGE_STREAM_ORDERS_"
	for name, c := range map[string]struct {
		env   settingsOf
		want  string
		asked []string
		// warned is the variable of a warning, empty for none.
		warned string
	}{
		"the topic decides":                   {with(stream+"TABLE", "orders"), "auto", []string{"t"}, ""},
		"on":                                  {with("BRIDGE_KAFKA_TOMBSTONES", "ON"), "on", nil, ""},
		"a stream's own":                      {with("BRIDGE_KAFKA_TOMBSTONES", "on", stream+"KAFKA_TOMBSTONES", "off"), "off", nil, ""},
		"a release stream has none":           {with(stream+"KIND", "release", stream+"KAFKA_TOMBSTONES", "on"), "off", nil, stream + "KAFKA_TOMBSTONES"},
		"NATS has none":                       {with("BRIDGE_SINK_URL", "nats://n1:4222", stream+"KAFKA_TOMBSTONES", "on"), "off", nil, stream + "KAFKA_TOMBSTONES"},
		"tables whose rows have the same ids": {with(), "off", nil, ""},
		"the same, where a person says that it may": {with(stream+"KAFKA_TOMBSTONES", "on"), "on", nil, ""},
	} {
		c.env[stream+"DESTINATION"] = "t"
		cfg := load(t, c.env)
		if got := cfg.Tombstones()(&cfg.Streams[0], "t"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := cfg.AskedTopics(); !slices.Equal(got, c.asked) {
			t.Errorf("%s: asked are %q, want %q", name, got, c.asked)
		}
		if warned := len(cfg.Warnings) > 0 && cfg.Warnings[0].Variable == c.warned; warned != (c.warned != "") {
			t.Errorf("%s: the warnings are %v", name, cfg.Warnings)
		}
	}
}
