package main

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

func TestSchemaCommand(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BRIDGE_STREAM_ORDERS_DESTINATION"] = "shop.{key}"
	got := outcome{}.call(s.env, "schema", "orders")
	var printed map[string]map[string]struct {
		Title      string
		Properties struct{ Data struct{ Required []string } }
	}
	if err := json.Unmarshal([]byte(got.out), &printed); err != nil || got.status != exitFine {
		t.Fatalf("status %d, %v: %s%s", got.status, err, got.out, got.err)
	}
	for operation, want := range map[string]string{"added": "id name total row", "modified": "id name total row", "deleted": "name reason row"} {
		one := printed["orders"][operation]
		if members := strings.Join(one.Properties.Data.Required, " "); members != want {
			t.Errorf("%s requires %q, want %q", operation, members, want)
		}
	}
	got = outcome{}.call(s.env, "schema", "--asyncapi")
	var document struct {
		Channels map[string]struct {
			Address    string
			Parameters map[string]any
		}
	}
	if err := json.Unmarshal([]byte(got.out), &document); err != nil || got.status != exitFine {
		t.Fatalf("status %d, %v: %s%s", got.status, err, got.out, got.err)
	}
	if c := document.Channels["shop._key_"]; c.Address != "shop.{key}" || c.Parameters["key"] == nil {
		t.Errorf("channels: %+v", document.Channels)
	}
	s.call(exitFailed, `no stream is configured as "other": there are orders`, "schema other")
	// A table that cannot be read leaves out its stream alone.
	two := maps.Clone(s.env)
	two["BRIDGE_STREAMS"], two["BRIDGE_STREAM_GONE_TABLE"], two["BRIDGE_STREAM_GONE_KIND"] = "gone,orders", "gone", "release"
	got = outcome{}.call(two, "schema")
	clear(printed)
	if err := json.Unmarshal([]byte(got.out), &printed); err != nil || got.status != exitFailed || len(printed) != 1 || printed["orders"] == nil {
		t.Errorf("status %d, %v: %s", got.status, err, got.out)
	}
	if !strings.Contains(got.err, `stream gone: read the columns of gone`) {
		t.Errorf("stderr %q", got.err)
	}
	s.exec("DROP TABLE orders")
	s.call(exitFailed, `stream orders: read the columns of orders: read orders after 0: missing in the source: no table "orders"`, "schema")
	delete(s.env, "BRIDGE_STREAMS")
	s.call(exitUsage, "the configuration is wrong", "schema")
}
