package acceptance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"example.org/bridge/internal/demo"
	"example.org/bridge/sink"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// newShop makes a database of SQLite with a table of releases, and returns the environment of a
// program that publishes them, and what inserts rows.
func newShop(t testing.TB) (e world.Env, insert func(n int)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	db, err := demo.OpenDatabase(t.Context(), path)
	check(t, err)
	t.Cleanup(func() { _ = db.Close() })
	insert = func(n int) {
		t.Helper()
		for range n {
			if _, err := db.Exec("INSERT INTO orders (customer, total_cents, created) VALUES ('ada', 100, datetime())"); err != nil {
				t.Fatal(err)
			}
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
		if status, _, stderr := world.Command(t, e, "verify"); status != 1 || !strings.Contains(stderr, words) {
			t.Errorf("verify: %d %s, want %s", status, stderr, words)
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

// headersOf returns the headers of all messages on the server inside bridge, in their order.
func headersOf(t *testing.T, url string) (all []nats.Header) {
	t.Helper()
	c, err := nats.Connect(url, nats.Timeout(time.Minute))
	check(t, err)
	defer c.Close()
	js, err := c.JetStream(nats.MaxWait(time.Minute))
	check(t, err)
	info, err := js.StreamInfo("BRIDGE")
	check(t, err)
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := js.GetMsg("BRIDGE", seq)
		check(t, err)
		all = append(all, m.Header)
	}
	return all
}
