package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"example.org/bridge/internal/demo"
	"example.org/bridge/internal/tracing/tracingtest"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// e is of a program that publishes a table of releases in SQLite.
func newShop(t testing.TB) (e world.Env, insert func(n int)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	db := must.Get(demo.OpenDatabase(t.Context(), path))(t)
	t.Cleanup(func() { _ = db.Close() })
	insert = func(n int) {
		t.Helper()
		for range n {
			must.Get(db.Exec("INSERT INTO orders (customer, total_cents, created) VALUES ('ada', 100, datetime())"))(t)
		}
	}
	return world.Env{
		"BRIDGE_SOURCE_URL": "sqlite://" + path, "BRIDGE_STREAMS": "orders", "BRIDGE_STREAM_ORDERS_TABLE": demo.Orders, "BRIDGE_STREAM_ORDERS_KIND": "release",
		"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(t.TempDir(), "bridge.db"),
	}, insert
}

// TestAFileAndTheServerInside runs bridge, check and verify with SQLite and the server inside
// bridge, beside one another and in turn, over two runs.
func TestAFileAndTheServerInside(t *testing.T) {
	testall.Beside(t)
	e, insert := newShop(t)
	insert(20)
	e["BRIDGE_SINK_URL"] = "embedded:" + filepath.Join(t.TempDir(), "nats")
	refuses := func(e world.Env, words string) {
		t.Helper()
		if said := types(t, e, 1, "verify"); !strings.Contains(said, words) {
			t.Errorf("verify: %s, want %s", said, words)
		}
	}
	mustBeSilent(t, e)
	refuses(e, "has published nothing")
	refuses(e.With(world.Env{"BRIDGE_SINK_URL": "stdout:"}), "cannot be read back")
	run := func(e world.Env, rows uint64, beside func(d *world.Daemon)) {
		t.Helper()
		d := world.NewDaemon(t, world.Binary(t, false), e)
		d.Start()
		world.Eventually(t, time.Minute, "bridge has published", func() bool { return d.Position("orders") == rows })
		beside(d)
		d.Ends()
	}
	run(e, 20, func(d *world.Daemon) {
		mustFind(t, d.Env, "note", "checkpoint-locked", "running")
		refuses(e, "stop it, or")
	})
	mustBeSilent(t, e)
	if r := mustVerify(t, e); r.Messages != 20 {
		t.Errorf("%+v", r)
	}
	insert(5)
	listen := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	e["BRIDGE_SINK_URL"] += "?listen=" + listen
	run(e, 25, func(*world.Daemon) {
		mustVerify(t, e)
		all := headersOf(t, "nats://"+listen)
		for i, header := range all {
			if header.Get(sink.HeaderRowID) != fmt.Sprint(i+1) || len(all) != 25 {
				t.Fatalf("event %d of %d is %v", i, len(all), header)
			}
		}
	})
}

func headersOf(t *testing.T, url string) (all []nats.Header) {
	t.Helper()
	c := must.Get(nats.Connect(url, nats.Timeout(time.Minute)))(t)
	defer c.Close()
	js := must.Get(c.JetStream(nats.MaxWait(time.Minute)))(t)
	info := must.Get(js.StreamInfo("BRIDGE"))(t)
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m := must.Get(js.GetMsg("BRIDGE", seq))(t)
		all = append(all, m.Header)
	}
	return all
}

// TestTracesGoOnOnTheBus: what a consumer of NATS reads continues the spans that a collector has
// got. The header is no part of the events: a start without a checkpoint finds them on the bus, and
// bridge verify finds nothing wrong.
func TestTracesGoOnOnTheBus(t *testing.T) {
	testall.Beside(t)
	const rows = 60
	e, insert := newShop(t)
	insert(rows)
	b, name := world.NATSBus(testenv.NATS(t)), "t_"+strings.ReplaceAll(testenv.NewStreamName(), "-", "_")
	collector := tracingtest.Start(t)
	d := world.NewDaemon(t, world.Binary(t, false), e.With(b.Env()).With(world.Env{
		"BRIDGE_STREAM_ORDERS_DESTINATION": b.Open(t, name), "BRIDGE_BATCH_ROWS": "7",
		"BRIDGE_TRACE": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_BSP_SCHEDULE_DELAY": "50",
	}))
	// continued waits until all messages continue a span.
	continued := func() {
		t.Helper()
		world.Eventually(t, time.Minute, "the collector has the spans of all messages", func() bool {
			known := make(map[string]bool)
			for _, s := range collector.Spans() {
				if s.Name == "publish" && s.Resource["service.name"] == "bridge" {
					known["00-"+s.Trace+"-"+s.ID+"-01"] = true
				}
			}
			all := b.ReadAll(t, name)
			return len(all) == rows && !slices.ContainsFunc(all, func(m world.Message) bool { return !known[m.Headers["traceparent"]] })
		})
	}
	d.Start()
	continued()
	d.Kill()
	d.LoseCheckpoint()
	d.Start()
	world.Eventually(t, time.Minute, "bridge has caught up", func() bool { return d.Position("orders") == rows })
	mustVerify(t, d.Env)
	d.Ends()
	continued()
}

// tour returns the environment of "bin/bridge run" in the README's tour, and behind it that with
// each further group of lines that set variables.
func tour(t testing.TB) (stages []world.Env) {
	t.Helper()
	text := must.Get(os.ReadFile("../../README.md"))(t)
	base, more := world.Env{}, world.Env{}
	for line := range strings.Lines(string(text)) {
		typed, _ := strings.CutPrefix(line, "    ")
		name, value, ok := strings.Cut(strings.TrimSpace(typed), "=")
		switch {
		case ok && strings.HasPrefix(name, "BRIDGE_"):
			more[name] = value
		case strings.TrimSpace(typed) == "bin/bridge run":
			base, more = more, world.Env{}
			stages = append(stages, base.With(nil))
		case len(stages) > 0 && len(more) > 0:
			stages, more = append(stages, base.With(more)), world.Env{}
		}
	}
	return stages
}

func TestTheTourOfTheREADME(t *testing.T) {
	testall.Beside(t)
	script := must.Get(os.ReadFile("../../deploy/shop.sql"))(t)
	server, nats, kafka := testenv.StartMariaDB(t), testenv.NATS(t), testenv.Kafka(t)
	kafka.CreateTopic(t, "orders", 3, nil)
	kafka.CreateTopic(t, "stock", 3, nil)
	must.Get(server.Root(t).Exec(string(script)))(t)
	here := strings.NewReplacer("127.0.0.1:3306", server.Addr, "127.0.0.1:9092", kafka.Brokers()[0], "nats://127.0.0.1:4222", "nats://"+nats.Addr(), "listen=127.0.0.1:4222", "listen=127.0.0.1:0")

	stages := tour(t)
	if len(stages) != 3 {
		t.Fatalf("%d sinks, want embedded:, Kafka and NATS", len(stages))
	}
	for _, e := range stages {
		t.Run(e["BRIDGE_SINK_URL"], func(t *testing.T) {
			for name := range e {
				e[name] = here.Replace(e[name])
			}
			e["BRIDGE_CHECKPOINT_URL"] = "file:" + filepath.Join(t.TempDir(), "bridge.db")
			if e["BRIDGE_NATS_CREATE_STREAM"] == "" {
				mustBeSilent(t, e)
			}
			d := world.NewDaemon(t, world.Binary(t, false), e)
			d.Start()
			world.Eventually(t, time.Minute, "the rows are published", func() bool { return d.Position("orders") == 3 && d.Position("stock") == 2 })
			world.AwaitReady(t, d)
			d.Ends()
			mustBeSilent(t, d.Env)
		})
	}
}
