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

func TestDestinationsOfAStream(t *testing.T) {
	for _, c := range []struct {
		sink, destination string
		want              []string
	}{
		{"kafka://k", "x.{stream}", []string{"dead", "x.orders"}},
		{"kafka://k", "x.{table}", []string{"dead", "x.orders_0", "x.orders_1"}},
		{"nats://n", "x.{type}.{key}", []string{"dead", "x.OrdersAddedEvent.*", "x.OrdersDeletedEvent.*", "x.OrdersModifiedEvent.*"}},
		{"nats://n", "x.{table}", []string{"dead", "x.orders_0", "x.orders_1"}},
	} {
		cfg := load(t, with("BRIDGE_SINK_URL", c.sink, "BRIDGE_STREAMS", "orders,bills", "BRIDGE_STREAM_BILLS_TABLE", "bills", "BRIDGE_STREAM_BILLS_KIND", "release",
			"BRIDGE_STREAM_ORDERS_DESTINATION", c.destination, "BRIDGE_STREAM_ORDERS_DEAD_LETTER", "dead"))
		if got := cfg.Destinations(&cfg.Streams[0]); !slices.Equal(got, c.want) {
			t.Errorf("%s at %s leads to %q, want %q", c.destination, c.sink, got, c.want)
		}
	}
}
