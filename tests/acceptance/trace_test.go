package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/internal/demo"
	"bridge/internal/tracing/tracingtest"
	"bridge/tests/testall"
	"bridge/tests/testenv"

	"github.com/nats-io/nats.go"
)

// TestTracesGoOnOnTheBus: what a consumer of NATS reads continues the spans that a collector has
// got. The header is no part of the events: a start without a checkpoint finds them on the bus, and
// bridge verify finds nothing wrong.
func TestTracesGoOnOnTheBus(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	dir := t.TempDir()
	db, err := demo.OpenDatabase(t.Context(), filepath.Join(dir, "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const rows = 60
	for range rows {
		if _, err := db.Exec("INSERT INTO orders (customer, total_cents, created) VALUES ('ada', 100, datetime())"); err != nil {
			t.Fatal(err)
		}
	}
	collector, address := tracingtest.Start(t), fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	e := world.Env{
		"BRIDGE_SOURCE_URL": "sqlite://" + filepath.Join(dir, "shop.db"), "BRIDGE_STREAMS": "orders", "BRIDGE_BATCH_ROWS": "7",
		"BRIDGE_STREAM_ORDERS_TABLE": demo.Orders, "BRIDGE_STREAM_ORDERS_KIND": "release", "BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(dir, "checkpoint"),
		"BRIDGE_SINK_URL": "embedded:" + filepath.Join(dir, "nats") + "?listen=" + address,
		"BRIDGE_TRACE":    "on", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_BSP_SCHEDULE_DELAY": "50",
	}
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	published := func() bool { return d.Position("orders") == rows }
	world.Eventually(t, time.Minute, "bridge has published", published)
	first := headersOf(t, "nats://"+address)
	// A kill takes the spans along that were not sent yet.
	world.Eventually(t, time.Minute, "the collector has the spans", func() bool { return missingSpans(collector, first) == 0 })
	d.Kill()
	// Without its checkpoint it reads back what it has published.
	if err := os.RemoveAll(filepath.Join(dir, "checkpoint")); err != nil {
		t.Fatal(err)
	}
	d.Start()
	world.Eventually(t, time.Minute, "bridge has caught up", published)
	mustVerify(t, e)
	messages := headersOf(t, "nats://"+address)
	if len(messages) != rows || len(first) != rows {
		t.Errorf("%d messages, %d before the kill, of %d rows", len(messages), len(first), rows)
	}
	if status, _ := d.Term(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if missing := missingSpans(collector, messages); missing > 0 {
		t.Errorf("%d of %d messages continue no span", missing, len(messages))
	}
}

// missingSpans counts the messages that continue no span that the collector has got.
func missingSpans(c *tracingtest.Collector, messages []nats.Header) (n int) {
	known := map[string]bool{}
	for _, s := range c.Spans() {
		if s.Name == "publish" && s.Resource["service.name"] == "bridge" {
			known["00-"+s.Trace+"-"+s.ID+"-01"] = true
		}
	}
	for _, header := range messages {
		if !known[header.Get("traceparent")] {
			n++
		}
	}
	return n
}

// headersOf returns the headers of all messages on the server inside bridge, in their order.
func headersOf(t *testing.T, url string) (all []nats.Header) {
	t.Helper()
	c, err := nats.Connect(url, nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	js, err := c.JetStream(nats.MaxWait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	info, err := js.StreamInfo("BRIDGE")
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := js.GetMsg("BRIDGE", seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m.Header)
	}
	return all
}
