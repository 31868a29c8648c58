package acceptance

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/internal/demo"
	"bridge/tests/testall"
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
			var s *demo.Subscriber
			// It gives up after two seconds.
			world.Eventually(t, time.Minute, "the server inside bridge takes a subscriber", func() bool {
				s, err = demo.Subscribe(at, "BRIDGE")
				return err == nil
			})
			var events []demo.Event
			world.Eventually(t, time.Minute, "bridge has done it", func() bool {
				events, err = s.All(t.Context())
				return err == nil && len(events) >= want
			})
			s.Close()
			for i, e := range events {
				if e.Row != int64(i+1) || e.Type != "OrdersPublishedEvent" {
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
			if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "lost       0") || strings.Contains(out.String(), "\x1b") {
				t.Errorf("%v\n%s", err, out.String())
			}
			if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}
