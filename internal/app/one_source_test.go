package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/check"
	"example.org/bridge/internal/config/configtest"
)

// TestOneSourceHasNoName: a bridge with BRIDGE_SOURCE_URL alone shows what it did before sources
// had names: messages and their ids, destinations, series, members of the status, what standbys
// agree on, and what `bridge check` prints. That version wrote the file: what goes for another
// reason is removed there.
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
	defer func() { h.stop() }()
	h.eventually("all is published and saved", func() bool {
		n := 0
		for _, topic := range h.topics {
			n += len(h.bus.Messages(topic))
		}
		for _, s := range h.app.Daemon().Status().Streams {
			for _, one := range s.Shards {
				n += int(one.Position)
			}
		}
		return n == 8
	})
	var b strings.Builder
	for _, topic := range h.topics {
		messages := h.bus.Messages(topic)
		var lines []string
		for i := range messages {
			m := &messages[i]
			lines = append(lines, fmt.Sprintf("message %s %q %s %s %s %s\n", topic, m.Key, m.Stream, m.Shard, m.ID, m.Value))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	all, err := h.app.Metrics().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		if !strings.HasPrefix(family.GetName(), "bridge_") {
			continue
		}
		for _, m := range family.GetMetric() {
			fmt.Fprintf(&b, "series %s", family.GetName())
			for _, l := range m.GetLabel() {
				if l.GetName() != "goversion" {
					fmt.Fprintf(&b, " %s=%s", l.GetName(), l.GetValue())
				}
			}
			b.WriteString("\n")
		}
	}
	text, err := json.Marshal(h.app.Daemon().Status())
	if err != nil {
		t.Fatal(err)
	}
	var status any
	if err := json.Unmarshal(text, &status); err != nil {
		t.Fatal(err)
	}
	members(&b, "status", status)
	for _, name := range slices.Sorted(maps.Keys(h.cfg.Standby.Settings)) {
		fmt.Fprintf(&b, "agreed %s %s\n", name, h.cfg.Standby.Settings[name])
	}
	for _, line := range strings.Split(check.Text(Examine(t.Context(), h.cfg), false), "\n") {
		if strings.HasPrefix(line, "source") || strings.HasPrefix(line, "stream") {
			b.WriteString("check " + line + "\n")
		}
	}
	want, err := os.ReadFile("testdata/one_source.txt")
	if err != nil {
		t.Fatal(err)
	}
	now, before := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for _, line := range before {
		if !slices.Contains(now, line) {
			t.Errorf("gone: %s", line)
		}
	}
	for _, line := range now {
		if strings.Contains(line, "source") && !slices.Contains(before, line) {
			t.Errorf("new: %s", line)
		}
	}
}

// members writes the names of the members of a JSON value, and what source is.
func members(b *strings.Builder, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			members(b, path+"."+name, value[name])
		}
	case []any:
		for _, one := range value {
			members(b, path+"[]", one)
		}
	default:
		if text, is := value.(string); is && (strings.HasPrefix(path, "status.source.") && !strings.HasSuffix(path, "since") || strings.HasSuffix(path, ".shard")) {
			path += " " + text
		}
		b.WriteString(path + "\n")
	}
}
