package config

import (
	"strings"
	"testing"
)

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
