package acceptance

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bridge/internal/demo"
	"bridge/internal/failpoint"
)

// failpointsTag is the build tag of programs with failpoints.
const failpointsTag = "bridge_failpoints"

// failpoints is a list of failpoints that can be changed while programs run by it.
type failpoints struct {
	t    testing.TB
	path string
}

// newFailpoints makes an empty list.
func newFailpoints(t testing.TB) *failpoints {
	t.Helper()
	f := &failpoints{t: t, path: filepath.Join(t.TempDir(), "failpoints")}
	f.set("")
	return f
}

// set replaces the list; programs follow within 50 ms.
func (f *failpoints) set(list string) {
	f.t.Helper()
	if err := os.WriteFile(f.path+".new", []byte(list), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		f.t.Fatal(err)
	}
}

// env returns the variable that points a program to the list.
func (f *failpoints) env() env { return env{failpoint.Variable: "file:" + f.path} }

// smallShop is a database of SQLite with a table of releases, and the environment of a program that prints them.
type smallShop struct {
	env    env
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
			_, err := db.Exec("INSERT INTO release_message (app_id, cluster, namespace, comment, gmt_create) " +
				"VALUES ('a', 'b', 'c', 'd', datetime())")
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return smallShop{insert: insert, env: env{
		"BRIDGE_SOURCE_URL": "sqlite://" + path, "BRIDGE_SINK_URL": "stdout:", "BRIDGE_STREAMS": "releases",
		"BRIDGE_STREAM_RELEASES_TABLE": demo.Releases, "BRIDGE_STREAM_RELEASES_KIND": "release", "BRIDGE_STABILITY_WINDOW": "0s",
	}}
}

// prints waits until the daemon has printed the event of a row.
func prints(t testing.TB, d *daemon, row int) {
	t.Helper()
	eventually(t, 20*time.Second, fmt.Sprintf("row %d is printed", row), func() bool {
		return strings.Contains(d.log.String(), fmt.Sprintf(`"id":%d}}`, row))
	})
}

func TestFailpoints(t *testing.T) {
	t.Parallel()
	t.Run("are not in the program", func(t *testing.T) {
		if left := failpointSymbols(t, binary(t, false)); len(left) > 0 {
			t.Errorf("a normal build holds %q", left)
		}
		if len(failpointSymbols(t, binary(t, false, failpointsTag))) == 0 {
			t.Error("no build holds any: the test shows nothing")
		}
	})
	t.Run("kill at any point of the way of a row, and lose nothing", func(t *testing.T) {
		for _, point := range []failpoint.Point{
			failpoint.OwnerTurn, failpoint.BeforeRead, failpoint.AfterRead, failpoint.BeforeJournal, failpoint.AfterJournal,
			failpoint.BeforePublish, failpoint.AfterPublish, failpoint.BeforeAck, failpoint.AfterAck,
			failpoint.BeforeSave, failpoint.AfterSave, failpoint.StoreSync, failpoint.StoreHeaderSync,
		} {
			list, shop := newFailpoints(t), newSmallShop(t)
			shop.insert(3)
			list.set(string(point) + "=kill")
			d := newDaemon(t, binary(t, false, failpointsTag), shop.env.with(list.env()).with(env{"BRIDGE_STREAM_RELEASES_KIND": "capability"}))
			d.start()
			if killed := d.wait(); killed != syscall.SIGKILL {
				t.Errorf("%s: ended by %v, want a kill\n%s", point, killed, d.log)
			}
			list.set("")
			d.start()
			prints(t, d, 3)
			d.kill()
		}
	})
	t.Run("are switched while the program runs", func(t *testing.T) {
		list, shop := newFailpoints(t), newSmallShop(t)
		d := newDaemon(t, binary(t, false, failpointsTag), shop.env.with(list.env()))
		d.start()
		shop.insert(1)
		prints(t, d, 1)
		list.set("BeforeRead=error(the cable was cut)")
		eventually(t, 20*time.Second, "the shard waits", func() bool {
			shards := d.shards("releases")
			return len(shards) == 1 && strings.Contains(shards[0].LastError, "the cable was cut")
		})
		shop.insert(1)
		list.set("BeforePublish=hang")
		pause(time.Second)
		if strings.Contains(d.log.String(), `"id":2}}`) {
			t.Errorf("published past a point that hangs:\n%s", d.log)
		}
		list.set("")
		prints(t, d, 2)
	})
	t.Run("that fail a sync are a fault that is retried, or the end where the disk's state is not known", func(t *testing.T) {
		list, shop := newFailpoints(t), newSmallShop(t)
		shop.insert(1)
		list.set("StoreSync=error(input/output error)*3")
		d := newDaemon(t, binary(t, false, failpointsTag), shop.env.with(list.env()))
		d.start()
		eventually(t, 20*time.Second, "the position is saved", func() bool { return d.position("releases") == 1 })
		if !strings.Contains(d.log.String(), "input/output error") {
			t.Errorf("the log does not tell:\n%s", d.log)
		}
		list.set("StoreHeaderSync=error(input/output error)")
		shop.insert(1)
		if signal := d.wait(); signal != -1 || !strings.Contains(d.log.String(), "check the disk, then restart bridge") {
			t.Errorf("ended by %v:\n%s", signal, d.log)
		}
	})
	t.Run("with a bad list end the program with status 2 and the variable's name", func(t *testing.T) {
		d := newDaemon(t, binary(t, false, failpointsTag), newSmallShop(t).env.with(env{failpoint.Variable: "BeforePublish=explode"}))
		d.start()
		_ = d.wait()
		if status := d.cmd.ProcessState.ExitCode(); status != 2 || !strings.Contains(d.log.String(), failpoint.Variable) {
			t.Errorf("exit status %d:\n%s", status, d.log)
		}
	})
}

// failpointSymbols returns what a program holds of the package.
func failpointSymbols(t testing.TB, path string) (found []string) {
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
		if strings.HasPrefix(s.Name, "bridge/internal/failpoint.") {
			found = append(found, s.Name)
		}
	}
	return found
}
