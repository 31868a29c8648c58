package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"bridge/internal/demo"
	"bridge/internal/tracing/tracingtest"
	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
	"bridge/tests/world"
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

// tour returns the environment of "bin/bridge run" in the README's tour, and behind it that with
// each further group of lines that set variables.
func tour(t testing.TB) (stages []world.Env) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
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

// TestTheTourOfTheREADME plays it with each of its buses.
func TestTheTourOfTheREADME(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	script, err := os.ReadFile("../../deploy/shop.sql")
	if err != nil {
		t.Fatal(err)
	}
	server, nats := testenv.StartMariaDB(t), testenv.StartNATS(t)
	kafka := testenv.StartKafka(t, testenv.KafkaOptions{})
	kafka.CreateTopic(t, "orders", 3, nil)
	kafka.CreateTopic(t, "stock", 3, nil)
	if _, err := server.Root(t).Exec(string(script)); err != nil {
		t.Fatal(err)
	}
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
			if status, _ := d.Term(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			mustBeSilent(t, d.Env)
		})
	}
}

// TestServedEntitiesSayWhatTheirEventsSay pages through the entities of tables with every type of
// column, and asks for some of them by key.
func TestServedEntitiesSayWhatTheirEventsSay(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	s := newEntities(t, testenv.MariaDB(t), workload.CapabilityOptions{Entities: 300, Writers: 4, Changes: 2000, Seed: 7}, world.Strict, world.Loose)
	s.Run()
	p := follow(s, world.KafkaBus(testenv.Kafka(t)), "served", world.Env{"BRIDGE_SERVE": "true"})
	p.Start()
	p.Drained()
	for stream := range s.Entities {
		p.ReconcileByHTTP(stream, "")
		p.MustMatch(stream, world.Expect{})
		path := "/api/v1/streams/" + stream + "/entities"
		want := published(p, stream)
		for key := range want {
			var one served
			world.Eventually(t, time.Minute, key+" is shown", func() bool { one = served{}; return getJSON(p, path+"/"+url.PathEscape(key), &one) == 200 })
			if one.Changed || one.Key != key || string(one.Data) != want[key] {
				t.Errorf("%s is shown as %s (changed: %v), its last event says %s", key, one.Data, one.Changed, want[key])
			}
		}
		shown := 0
		for after := ""; ; {
			var page struct {
				Entities []served
				Next     string
			}
			if status := getJSON(p, path+"?limit=70&after="+url.QueryEscape(after), &page); status != 200 {
				t.Fatalf("a page of %s: status %d", stream, status)
			}
			for _, one := range page.Entities {
				if string(one.Data) != want[one.Key] {
					t.Errorf("%s is shown as %s, its last event says %s", one.Key, one.Data, want[one.Key])
				}
			}
			shown += len(page.Entities)
			if after = page.Next; after == "" {
				break
			}
		}
		if shown != len(want) {
			t.Errorf("%s: the pages have %d entities, the bus has %d", stream, shown, len(want))
		}
	}
}

// served is an entity as bridge shows it.
type served struct {
	Key     string
	Changed bool
	Data    json.RawMessage
}

// getJSON asks bridge, and returns the status of the answer.
func getJSON(p *world.Publisher, path string, to any) int {
	p.T.Helper()
	status, body := p.Get(path)
	if status == 200 {
		if err := json.Unmarshal([]byte(body), to); err != nil {
			p.T.Fatal(err)
		}
	}
	return status
}

// published returns the data of the last event of each entity that is not deleted.
func published(p *world.Publisher, stream string) map[string]string {
	p.T.Helper()
	last := make(map[string]string)
	for _, m := range p.Bus.ReadAll(p.T, p.Destination(stream)) {
		var e struct {
			Meta struct{ Type string }
			Data json.RawMessage
		}
		if err := json.Unmarshal(m.Value, &e); err != nil {
			p.T.Fatal(err)
		}
		key := m.Key
		if strings.HasSuffix(e.Meta.Type, "DeletedEvent") {
			delete(last, key)
			continue
		}
		// In the answer, JSON has no blanks.
		var data bytes.Buffer
		if err := json.Compact(&data, e.Data); err != nil {
			p.T.Fatal(err)
		}
		last[key] = data.String()
	}
	return last
}

// TestServedKeysThatAPathCannotHave asks for entities whose keys clients and proxies remove from a
// path.
func TestServedKeysThatAPathCannotHave(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	w := world.Empty(t, nil)
	w.Exec("CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT NOT NULL UNIQUE)")
	w.Exec("INSERT INTO items (k) VALUES (''), ('.'), ('..'), ('a/b')")
	b := world.NATSBus(testenv.NATS(t))
	d := world.NewDaemon(t, world.Binary(t, false), b.Env().With(world.Env{
		"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "items", "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_SERVE": "true", "BRIDGE_STREAM_ITEMS_TABLE": "items",
		"BRIDGE_STREAM_ITEMS_KIND": "capability", "BRIDGE_STREAM_ITEMS_KEY": "k", "BRIDGE_STREAM_ITEMS_DESTINATION": b.Open(t, w.Name+"_items"),
	}))
	d.Start()
	for _, key := range []string{"", ".", "..", "a/b"} {
		world.Eventually(t, time.Minute, "the entity with the key '"+key+"'", func() bool {
			status, body := d.Get("/api/v1/streams/items/entity?key=" + url.QueryEscape(key))
			var one served
			return status == 200 && json.Unmarshal([]byte(body), &one) == nil && one.Key == key
		})
	}
}
