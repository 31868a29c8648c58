package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"bridge/internal/demo"
	"bridge/tests/testall"
	"bridge/tests/world"
)

// TestSQLite runs the program beside an application with a database of SQLite: what it prints, and
// what it publishes to the server inside it over two runs.
func TestSQLite(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	dir := t.TempDir()
	db, err := demo.OpenDatabase(t.Context(), filepath.Join(dir, "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	insert := func(n int) {
		for range n {
			if _, err := db.Exec("INSERT INTO orders (customer, total_cents, created) VALUES ('ada', 100, datetime())"); err != nil {
				t.Fatal(err)
			}
		}
	}
	e := world.Env{
		"BRIDGE_SOURCE_URL":          "sqlite://" + filepath.Join(dir, "shop.db"),
		"BRIDGE_STREAMS":             "orders",
		"BRIDGE_STREAM_ORDERS_TABLE": demo.Orders, "BRIDGE_STREAM_ORDERS_KIND": "release",
	}
	insert(20)
	t.Run("prints every row with its file, table and id", func(t *testing.T) {
		d := world.NewDaemon(t, world.Binary(t, false), e.With(world.Env{"BRIDGE_SINK_URL": "stdout:"}))
		d.Start()
		for id := 1; id <= 20; id++ {
			world.Eventually(t, time.Minute, "bridge has done it", func() bool {
				return strings.Contains(d.Log.String(), fmt.Sprintf(`"row":{"source":"shop","table":"orders","id":%d}`, id))
			})
		}
		if status, _ := d.Term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
	})
	t.Run("publishes to the server inside it, once each over two runs", func(t *testing.T) {
		d := world.NewDaemon(t, world.Binary(t, false), e.With(world.Env{"BRIDGE_SINK_URL": "embedded:" + filepath.Join(dir, "nats") + "?listen=127.0.0.1:0"}))
		for run, want := range []int{20, 25} {
			d.Start()
			world.Eventually(t, time.Minute, "bridge has done it", func() bool { return strings.Count(d.Log.String(), "url=nats://") > run })
			log := d.Log.String()
			at := strings.Fields(log[strings.LastIndex(log, "url=nats://")+len("url="):])[0]
			var events []storedEvent
			// A connection gives up after two seconds.
			world.Eventually(t, time.Minute, "all events are in the server inside bridge", func() bool {
				events, err = storedAt(t.Context(), at)
				return err == nil && len(events) >= want
			})
			for i, e := range events {
				if e.Data.Row.ID != i+1 || e.Meta.Type != "OrdersPublishedEvent" {
					t.Errorf("event %d is %+v", i, e)
				}
			}
			if status, _ := d.Term(); status != 0 || len(events) != want {
				t.Errorf("exit status %d, %d events, want %d", status, len(events), want)
			}
			insert(5)
		}
	})
}

// storedEvent is an event in the stream of a server.
type storedEvent struct {
	Meta struct{ Type string }
	Data struct{ Row struct{ ID int } }
}

// storedAt returns the events that the server at a URL holds.
func storedAt(ctx context.Context, url string) (all []storedEvent, err error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, "BRIDGE")
	if err != nil {
		return nil, err
	}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return nil, err
		}
		var e storedEvent
		if err := json.Unmarshal(m.Data, &e); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func TestDemoIsInterrupted(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run("by "+signal.String(), func(t *testing.T) {
			tmp := t.TempDir()
			var out world.Log
			cmd := exec.Command(world.Binary(t, false), "demo", "--for", "5m")
			cmd.Env, cmd.Stdout, cmd.Stderr = []string{"TMPDIR=" + tmp}, &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			world.Eventually(t, time.Minute, "bridge has done it", func() bool { return strings.Contains(out.String(), "AddedEvent") })
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "nothing is wrong, as far as it can be judged") || strings.Contains(out.String(), "\x1b") {
				t.Errorf("%v\n%s", err, out.String())
			}
			if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}
