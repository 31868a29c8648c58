package acceptance

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bridge/internal/demo"
	"bridge/tests/faulty/failpoint"
	"bridge/tests/testall"
	"bridge/tests/world"
)

// smallShop is a database of SQLite with a table of releases, and the environment of a program that
// prints them.
type smallShop struct {
	env    world.Env
	insert func(n int)
}

func newSmallShop(t testing.TB) smallShop {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	db, err := demo.OpenDatabase(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	insert := func(n int) {
		for range n {
			_, err := db.Exec("INSERT INTO orders (customer, total_cents, created) VALUES ('ada', 100, datetime())")
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return smallShop{insert: insert, env: world.Env{
		"BRIDGE_SOURCE_URL": "sqlite://" + path, "BRIDGE_SINK_URL": "stdout:", "BRIDGE_STREAMS": "orders",
		"BRIDGE_STREAM_ORDERS_TABLE": demo.Orders, "BRIDGE_STREAM_ORDERS_KIND": "release", "BRIDGE_STABILITY_WINDOW": "0s",
	}}
}

// prints waits until the daemon has printed the event of a row.
func prints(t testing.TB, d *world.Daemon, row int) {
	t.Helper()
	world.Eventually(t, time.Minute, fmt.Sprintf("row %d is printed", row), func() bool {
		return strings.Contains(d.Log.String(), fmt.Sprintf(`"id":%d}}`, row))
	})
}

func TestFailpoints(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	t.Run("are not in the program", func(t *testing.T) {
		if points, mutants := failpointSymbols(t, world.Binary(t, false)); len(points)+len(mutants) > 0 {
			t.Errorf("a normal build holds %q and %q", points, mutants)
		}
		if points, mutants := failpointSymbols(t, world.Faulty(t)); len(points) == 0 || len(mutants) == 0 {
			t.Errorf("a build with them holds %q and %q: the test shows nothing", points, mutants)
		}
	})
	t.Run("kill at any point of the way of a row, and lose nothing", func(t *testing.T) {
		for _, point := range []failpoint.Point{
			failpoint.OwnerLoop, failpoint.BeforeRead, failpoint.AfterRead,
			failpoint.BeforePublish, failpoint.AfterPublish, failpoint.BeforeAck, failpoint.AfterAck,
			failpoint.BeforeSave, failpoint.AfterSave, failpoint.StoreSync, failpoint.ManifestSync,
		} {
			list, shop := world.NewFailpoints(t), newSmallShop(t)
			shop.insert(3)
			list.Set(failpoint.Action{Point: point, Kill: true})
			d := world.NewDaemon(t, world.Faulty(t), shop.env.With(list.Env()).With(world.Env{"BRIDGE_STREAM_ORDERS_KIND": "capability"}))
			d.Start()
			if killed := d.Wait(); killed != syscall.SIGKILL {
				t.Errorf("%s: ended by %v, want a kill\n%s", point, killed, d.Log)
			}
			list.Set()
			d.Start()
			prints(t, d, 3)
			d.Kill()
		}
	})
	t.Run("are switched while the program runs", func(t *testing.T) {
		list, shop := world.NewFailpoints(t), newSmallShop(t)
		d := world.NewDaemon(t, world.Faulty(t), shop.env.With(list.Env()))
		d.Start()
		shop.insert(1)
		prints(t, d, 1)
		list.Set(failpoint.Action{Point: failpoint.BeforeRead, Error: "the cable was cut"})
		world.Eventually(t, time.Minute, "the shard waits", func() bool {
			shards := d.Shards("orders")
			return len(shards) == 1 && strings.Contains(shards[0].LastError, "the cable was cut")
		})
		shop.insert(1)
		list.Set(failpoint.Action{Point: failpoint.BeforePublish, Hang: true})
		world.Pause(time.Second)
		if strings.Contains(d.Log.String(), `"id":2}}`) {
			t.Errorf("published past a point that hangs:\n%s", d.Log)
		}
		list.Set()
		prints(t, d, 2)
	})
	t.Run("that fail a sync are an outage, or the end where the disk's state is not known", func(t *testing.T) {
		list, shop := world.NewFailpoints(t), newSmallShop(t)
		shop.insert(1)
		d := world.NewDaemon(t, world.Faulty(t), shop.env.With(list.Env()))
		d.Start()
		world.Eventually(t, time.Minute, "the position is saved", func() bool { return d.Position("orders") == 1 })
		list.Set(failpoint.Action{Point: failpoint.StoreSync, Error: "input/output error", Times: 3})
		shop.insert(1)
		world.Eventually(t, time.Minute, "the log tells of the disk, and of the outage", func() bool {
			log := d.Log.String()
			return strings.Contains(log, "input/output error") && strings.Contains(log, "dependency=checkpoint")
		})
		world.Eventually(t, time.Minute, "the position is saved again", func() bool { return d.Position("orders") == 2 })
		list.Set(failpoint.Action{Point: failpoint.ManifestSync, Error: "input/output error"})
		shop.insert(1)
		if signal := d.Wait(); signal != -1 || !strings.Contains(d.Log.String(), "check its disk, then restart bridge") {
			t.Errorf("ended by %v:\n%s", signal, d.Log)
		}
	})
	t.Run("with a bad list, and unknown defects, end the program with status 2 and the variable's name", func(t *testing.T) {
		for name, value := range map[string]string{failpoint.Variable: "no_such_file", failpoint.MutantVariable: "drop-all"} {
			d := world.NewDaemon(t, world.Faulty(t), newSmallShop(t).env.With(world.Env{name: value}))
			d.Start()
			_ = d.Wait()
			if status := d.Cmd.ProcessState.ExitCode(); status != 2 || !strings.Contains(d.Log.String(), name) {
				t.Errorf("exit status %d:\n%s", status, d.Log)
			}
		}
	})
}

// failpointSymbols returns the symbols of the package in a program, and those of mutants elsewhere.
func failpointSymbols(t testing.TB, path string) (points, mutants []string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		switch {
		case strings.HasPrefix(s.Name, "bridge/tests/faulty/failpoint."):
			points = append(points, s.Name)
		case strings.HasPrefix(s.Name, "bridge/") && strings.Contains(s.Name, ".mutant"):
			mutants = append(mutants, s.Name)
		}
	}
	return points, mutants
}
