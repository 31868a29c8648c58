package config

import (
	"strings"
	"testing"
)

// TestTablesOfAPatternGoWhereTheirRowsSay: DESTINATIONS bounds what a column of the rows may name.
func TestTablesOfAPatternGoWhereTheirRowsSay(t *testing.T) {
	const stream = "BRIDGE_STREAM_ORDERS_"
	for _, c := range []struct{ sink, to, bounds string }{
		{"kafka://k", "{column:topic}", "orders,bills"},
		{"kafka://k", "o.{column:topic}", "o.orders"},
		{"kafka://k", "{table}.{column:topic}", "outbox_1.orders,outbox_eu.orders"},
		{"nats://n", "{table}.{column:topic}", "outbox_1.*"},
		{"nats://n", "o.{type}.{column:topic}", "o.OutboxPublishedEvent.orders"},
		{"nats://n", "o.{key}.{column:topic}", "o.7.orders"},
	} {
		cfg := load(t, with("BRIDGE_SINK_URL", c.sink, stream+"TABLE", "outbox_*", stream+"KIND", "release", stream+"PAYLOAD", "payload", stream+"DEAD_LETTER", "dead",
			stream+"DESTINATION", c.to, stream+"DESTINATIONS", c.bounds))
		if err := cfg.CanPublish(&cfg.Streams[0], "outbox_1"); err != nil {
			t.Errorf("%s: %v", c.to, err)
		}
	}
}

// TestTablesThatMatch: tables of a pattern are there once, under the name that the pattern gives
// them, and lead to subjects that do not change with them.
func TestTablesThatMatch(t *testing.T) {
	cfg := load(t, with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_STREAM_ORDERS_TABLE", "orders_1,shop.orders_*", "BRIDGE_STREAM_ORDERS_DESTINATION", "x.{table}"))
	found := cfg.WithTables(map[string][]string{"orders": {"shop.orders_1", "shop.orders_2"}})
	s := &found.Streams[0]
	if got := strings.Join(s.Tables, " "); got != "orders_1 shop.orders_2" {
		t.Errorf("tables %s", got)
	}
	if found.Matched(s, "orders_1") || !found.Matched(s, "shop.orders_3") || found.Matched(s, "shop.bills") || !found.Has(s)("shop.orders_1") {
		t.Error("what a pattern matches")
	}
	before, after := cfg.Destinations(&cfg.Streams[0]), found.Destinations(s)
	if strings.Join(before, " ") != "x.*" || strings.Join(after, " ") != "x.*" {
		t.Errorf("destinations %q, then %q", before, after)
	}
	for table, fits := range map[string]bool{"shop.orders_3": true, "shop.orders_{3}": false, "shop.orders_*": false, "shop.bills": false} {
		if err := found.CanPublish(s, table); (err == nil) != fits {
			t.Errorf("%s: %v", table, err)
		}
	}
}
