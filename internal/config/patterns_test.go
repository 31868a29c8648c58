package config

import (
	"strings"
	"testing"
)

// TestPatternsInTables: a pattern is of one source, and what it may match is of one stream.
func TestPatternsInTables(t *testing.T) {
	for _, c := range []struct {
		orders, bills, refused string
	}{
		{"orders_*", "bills_*", ""},
		{"orders_*", "bills", ""},
		{"shop_?.orders_*", "shop_??.orders_*", ""},
		{"shop_{0..3}.orders_*,shop_0.orders_1", "shop_4.orders_*", ""},
		{"orders_*", "*_eu", "BRIDGE_STREAM_BILLS_TABLE: has item 1, which may match a table that item 1 of BRIDGE_STREAM_ORDERS_TABLE has too"},
		{"orders_*", "bills,orders_7", "item 2"},
		{"*.orders_*", "bills_*,shop.orders_7", "item 2"},
		{"orders", "*", "item 1"},
	} {
		env := with("BRIDGE_STREAMS", "orders,bills", "BRIDGE_STREAM_ORDERS_TABLE", c.orders, "BRIDGE_STREAM_BILLS_TABLE", c.bills, "BRIDGE_STREAM_BILLS_KIND", "release")
		_, err := Load(env.Environ(), &Redactor{})
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s and %s: %v", c.orders, c.bills, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s and %s: %v", c.orders, c.bills, err)
		}
	}
	several := with("BRIDGE_SOURCES", "a,b", "BRIDGE_SOURCE_A_URL", "mysql://u:p@a/shop", "BRIDGE_SOURCE_B_URL", "mysql://u:p@b/shop",
		"BRIDGE_STREAM_ORDERS_TABLE", "*/orders,b/orders", "BRIDGE_SOURCE_URL", "")
	if _, err := Load(several.Environ(), &Redactor{}); err == nil || !strings.Contains(err.Error(), "a pattern is of one source") {
		t.Errorf("a pattern of two sources: %v", err)
	}
}

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
