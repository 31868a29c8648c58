package app

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/config/configtest"
)

// TestOneSourceHasNoName: a bridge with BRIDGE_SOURCE_URL alone publishes the messages, ids and
// keys included, and agrees with its standbys on the settings, that it did before sources had
// names. That version wrote the file.
func TestOneSourceHasNoName(t *testing.T) {
	h := emptyHousehold(t, configtest.Env{
		"BRIDGE_STREAMS": "states,facts", "BRIDGE_STREAM_STATES_TABLE": "d_{0..1}", "BRIDGE_STREAM_STATES_KIND": "capability", "BRIDGE_STREAM_STATES_KEY": "name",
		"BRIDGE_STREAM_STATES_MODIFIED": "modified", "BRIDGE_STREAM_STATES_DESTINATION": "x.{stream}", "BRIDGE_HTTP_ADDR": "127.0.0.1:1",
		"BRIDGE_STREAM_FACTS_TABLE": "d_0,main.f", "BRIDGE_STREAM_FACTS_KIND": "release", "BRIDGE_STREAM_FACTS_MODIFIED": "modified", "BRIDGE_STREAM_FACTS_DESTINATION": "x.{table}",
		"BRIDGE_STANDBY": "g",
	})
	for _, name := range []string{"d_0", "d_1", "main.f"} {
		h.newTable(name).Insert("in "+name, "new", "2026-01-02 03:04:05.000000")
	}
	h.topics = []string{"x.states", "x.d_0", "x.f"}
	for _, topic := range h.topics {
		h.bus.Create(topic)
	}
	h.start()
	var lines []string
	h.eventually("all is published", func() bool {
		lines = nil
		for _, topic := range h.topics {
			for _, m := range h.bus.Messages(topic) {
				lines = append(lines, fmt.Sprintf("message %s %q %s %s %s %s\n", topic, m.Key, m.Stream, m.Shard, m.ID, m.Value))
			}
		}
		return len(lines) == 4
	})
	for _, name := range slices.Sorted(maps.Keys(h.cfg.Standby.Settings)) {
		lines = append(lines, fmt.Sprintf("agreed %s %s\n", name, h.cfg.Standby.Settings[name]))
	}
	slices.Sort(lines)
	want, err := os.ReadFile("testdata/one_source.txt")
	if got := strings.Join(lines, ""); err != nil || got != string(want) {
		t.Errorf("%v: there are\n%s\nwant\n%s", err, got, want)
	}
}
