package config

import (
	"slices"
	"testing"
)

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

func TestReaches(t *testing.T) {
	for _, c := range []struct {
		sink, stream, destination string
		known                     bool
		topic                     string
	}{
		{"kafka://k", "-", "x.{stream}", true, "x.orders"},
		{"nats://n", "S", "x.{type}.{key}", true, "S"},
		{"nats://n", "-", "x.{table}", true, ""},
		{"nats://n", "-", "x.{type}", false, ""},
		{"nats://n", "-", "x.{key}", false, ""},
	} {
		cfg := load(t, with("BRIDGE_SINK_URL", c.sink, "BRIDGE_NATS_STREAM", c.stream, "BRIDGE_STREAM_ORDERS_DESTINATION", c.destination))
		reaches := cfg.Reaches(&cfg.Streams[0], cfg.Streams[0].Tables[0])
		if (reaches != nil) != c.known {
			t.Errorf("%s at %s: known %v, want %v", c.destination, c.sink, reaches != nil, c.known)
			continue
		}
		if c.known && (reaches("another") || c.topic != "" && !reaches(c.topic)) {
			t.Errorf("%s at %s reaches another topic, or not %q", c.destination, c.sink, c.topic)
		}
	}
}
