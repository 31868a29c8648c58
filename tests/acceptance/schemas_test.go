package acceptance

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestSchemasOfOthers publishes every table of Apollo, Nacos and XXL-JOB that numbers its rows, as
// a stream of states and as one of facts: check finds nothing that stops one, verify nothing that
// differs. testdata/schemas has the tables, five rows of each, and the streams.
func TestSchemasOfOthers(t *testing.T) {
	testall.Beside(t)
	for _, name := range []string{"apollo", "nacos", "xxl-job"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, b := world.Empty(t, testenv.MariaDB(t)), world.NATSBus(testenv.NATS(t))
			topic := w.Name + "_all"
			e := b.Env().With(world.Env{"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_RECONCILE_INTERVAL": "1h"})
			file := func(ending string) string {
				return string(contents(t, filepath.Join("testdata", "schemas", name+ending)))
			}
			for line := range strings.Lines(file(".env")) {
				variable, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				e[variable] = value
			}
			for _, statement := range strings.Split(file(".sql"), ";\n") {
				if strings.TrimSpace(statement) != "" {
					w.Exec(statement)
				}
			}
			want, destination := make(map[string]int), b.Open(t, topic)
			for stream := range strings.SplitSeq(e["BRIDGE_STREAMS"], ",") {
				want[stream] = 5
				e = e.With(world.StreamEnv(stream, world.Env{"DESTINATION": destination, "EVENT": "E"}))
			}
			d := world.NewDaemon(t, world.Binary(t, false), e)
			for _, g := range answered(t, d.Env).findings() {
				if g.Severity == "unsafe" {
					t.Errorf("check finds %+v", g)
				}
			}
			d.Start()
			rows := make(map[string]int)
			world.Eventually(t, time.Minute, "all rows are published", func() bool { return b.Count(t, topic) >= int64(5*len(want)) })
			b.Read(t, topic, func(m world.Message) { rows[m.Headers["bridge-stream"]]++ })
			if !maps.Equal(rows, want) {
				t.Errorf("the streams have %v events, want 5 each", rows)
			}
			if r := world.Verify(t, d.Env); !r.Good {
				t.Errorf("bridge verify: %+v", r)
			}
		})
	}
}
