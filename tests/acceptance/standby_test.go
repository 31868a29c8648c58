package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// shortTimeout is BRIDGE_STANDBY_TIMEOUT of tests that do not measure the default. Beside other
// tests processes are without a processor for a second or two, and must not lose the work by that.
const shortTimeout = 5 * time.Second

// newStandby makes the world of a standby group, whose program has the race detector or not.
func newStandby(t *testing.T, b *world.Bus, race bool) *world.Publisher {
	t.Helper()
	return underLoad(t, b, world.Binary(t, race), world.Env{"BRIDGE_STABILITY_WINDOW": "0s"})
}

// TestStandby has two processes publish a world, at least once and exactly once. The one that works
// is killed, stopped and continued, replaced in order, and cut off from the database; and a third
// one with another configuration is refused. The program has the race detector where it publishes
// at least once: what exactly-once adds has it in the suites of the sinks.
func TestStandby(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, standby)
}

func standby(t *testing.T, b *world.Bus) {
	p := newStandby(t, b, !b.Once())
	db := testenv.StartProxy(t, p.World.Server.Addr)
	g := world.NewGroup(p, shortTimeout, world.Env{"BRIDGE_SOURCE_URL": strings.Replace(p.World.URL, p.World.Server.Addr, db.Addr(), 1)}, nil)
	_, stop := p.World.Write()
	g.Published(time.Minute, "what is written arrives")
	g.Ready()
	g.Killed()
	g.Ready()
	g.Rolled()
	g.Ready()
	g.Stopped(shortTimeout / 4)
	g.Ready()
	for round := 1; !worksWithoutDatabase(g, db); round++ {
		if round == 3 {
			t.Fatal("the one that is cut off from the database does not work any more")
		}
	}
	g.Published(time.Minute, "it goes on")
	g.Ready()
	other := world.NewDaemon(t, p.Path, g.Members[0].Env.WithoutOwn().With(world.Env{"BRIDGE_STREAM_STRICT_KEY": "app", "BRIDGE_STREAM_STRICT_TAG": "x"}))
	other.Start()
	world.AwaitUnready(t, other, "BRIDGE_STREAM_STRICT_KEY, BRIDGE_STREAM_STRICT_TAG")
	other.Kill()
	stop()
	g.Compare(2)
}

// worksWithoutDatabase cuts the member behind db off from its database, and reports whether it
// keeps the work, unready. One that is held for too long ends by itself, which says nothing.
func worksWithoutDatabase(g *world.Group, db *testenv.Proxy) (works bool) {
	g.T.Helper()
	cut := g.Members[0]
	g.MoveTo(cut)
	before := g.Starved()
	db.Cut()
	defer db.Heal()
	world.AwaitUnready(g.T, cut.Daemon)
	world.Pause(2 * shortTimeout)
	world.Eventually(g.T, time.Minute, "the one that is cut off from the database works, or has ended", func() bool {
		s, _ := cut.Standby()
		works = s.Works
		return works || g.Starved() > before
	})
	return works
}

// TestStandbyCommands: what a person types is done by the one that works, whichever member of the
// group is asked.
func TestStandbyCommands(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		table, e, widen := deadLetterScene(t, b)
		e = e.With(world.Env{"BRIDGE_STREAMS": "things,facts", "BRIDGE_STANDBY": table.Name, "BRIDGE_HTTP_TOKEN": "0123456789abcdef"})
		for name := range e {
			if strings.HasPrefix(name, "BRIDGE_STREAM_FLOOD_") {
				delete(e, name)
			}
		}
		large := large()
		table.Exec("INSERT INTO things (name, body) VALUES ('a', 'x'), ('b', 'x')")
		table.Exec("INSERT INTO facts (body) VALUES ('x'), (?)", large)
		works, waits := world.NewDaemon(t, world.Binary(t, false), e), world.NewDaemon(t, world.Binary(t, false), e)
		works.Start()
		world.Eventually(t, time.Minute, "drained", func() bool { return works.Position("things") == 2 && works.Position("facts") == 2 })
		waits.Start()
		world.AwaitReady(t, waits)

		for _, d := range []*world.Daemon{works, waits} {
			world.Eventually(t, time.Minute, "each says who works and who waits", func() bool {
				status, stdout, _ := world.Command(t, d.Env, "status")
				return status == 0 && strings.Contains(stdout, "works since ") && strings.Contains(stdout, " waits")
			})
		}
		// A reconcile follows each take-over, that of the first process, too: it finds nothing yet.
		if got := reconcileBeside(t, waits, 0, "things"); got != "{DryRun:false Modified:0 Deleted:0}" {
			t.Errorf("at first it finds %s", got)
		}
		table.Exec("UPDATE things SET body = 'y' WHERE name = 'a'")
		if got := reconcileBeside(t, waits, 0, "--dry-run", "things"); got != "{DryRun:true Modified:1 Deleted:0}" {
			t.Errorf("a dry run finds %s", got)
		}
		if got := reconcileBeside(t, waits, 0, "things"); got != "{DryRun:false Modified:1 Deleted:0}" {
			t.Errorf("a reconcile finds %s", got)
		}
		table.Exec("DELETE FROM things")
		reconcileBeside(t, waits, 1, "things")
		if got := reconcileBeside(t, waits, 0, "--allow-deletes", "things"); got != "{DryRun:false Modified:0 Deleted:2}" {
			t.Errorf("with deletes allowed it finds %s", got)
		}
		expectDeadLetters(t, deadLetters(t, waits.Env, 0, "list"), "facts/2")
		expectDeadLetters(t, deadLetters(t, waits.Env, 1, "resend"), "facts/2 refused")
		widen()
		expectDeadLetters(t, deadLetters(t, waits.Env, 0, "resend", "--dry-run"), "facts/2 same")
		world.Eventually(t, time.Minute, "the one that works knows that the bus takes more", func() bool {
			status, _, _ := world.Command(t, waits.Env, "deadletter", "resend")
			return status == 0
		})
		if status, body := waits.Post("/api/v1/streams/things/reconcile?dryRun=true"); status != http.StatusAccepted {
			t.Errorf("by HTTP: %d %s", status, body)
		}
		alone := waits.Env.With(world.Env{"BRIDGE_CHECKPOINT_URL": "file:" + t.TempDir() + "/other.db", "BRIDGE_HTTP_ADDR": "127.0.0.1:1"})
		if said := types(t, alone, 1, "reconcile"); !strings.Contains(said, "run the command where a process of the group runs") {
			t.Errorf("where no process runs: %s", said)
		}
		if said := types(t, alone, 1, "reconcile", "--dry-run"); !strings.Contains(said, "type a dry run where a process of the group runs") {
			t.Errorf("a dry run where no process runs: %s", said)
		}

		works.Kill()
		if said := types(t, waits.Env, 1, "reconcile", "things"); !strings.Contains(said, "works, and was not reached at ") &&
			!strings.Contains(said, "which one works is not known now") {
			t.Errorf("the one that works is dead: %s", said)
		}
		world.Eventually(t, time.Minute, "the other one works", func() bool {
			status, _, _ := world.Command(t, waits.Env, "reconcile", "things")
			return status == 0
		})
		if said := types(t, waits.Env, 0, "status"); !strings.Contains(said, ", works since ") {
			t.Error(said)
		}
		mustVerify(t, waits.Env)
	})
}

// It returns the report of the first table.
func reconcileBeside(t *testing.T, d *world.Daemon, want int, args ...string) string {
	t.Helper()
	status, stdout, stderr := world.Command(t, d.Env, append([]string{"reconcile", "--json"}, args...)...)
	var report struct {
		Shards []struct {
			DryRun            bool
			Modified, Deleted int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || status != want || len(report.Shards) == 0 {
		t.Fatalf("bridge reconcile %s: status %d, want %d, %v\n%s\n%s", strings.Join(args, " "), status, want, err, stdout, stderr)
	}
	return fmt.Sprintf("%+v", report.Shards[0])
}

// envFile has the variables of the streams of a program, which reads them again at a reload.
type envFile struct {
	t    testing.TB
	path string
	all  world.Env
}

// newEnvFile moves the variables of the streams of a program, which does not run, to a file.
func newEnvFile(t testing.TB, d *world.Daemon) *envFile {
	f := &envFile{t, filepath.Join(t.TempDir(), "bridge.env"), make(world.Env)}
	rest := world.Env{"BRIDGE_ENV_FILE": f.path}
	for name, value := range d.Env {
		if strings.HasPrefix(name, "BRIDGE_STREAM") {
			f.all[name] = value
		} else {
			rest[name] = value
		}
	}
	d.Env = rest
	f.write(f.all)
	return f
}

func (f *envFile) write(e world.Env) {
	f.t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e)) {
		fmt.Fprintf(&text, "%s='%s'\n", name, e[name])
	}
	write(f.t, f.path, text.String())
}

func reload(d *world.Daemon) {
	d.T.Helper()
	if code, body := d.Post("/api/v1/reload"); code != http.StatusOK {
		d.T.Fatalf("a reload is answered %d: %s", code, body)
	}
}

// TestReloads removes, adds and changes streams by reloads while rows are written, and kills the
// program at any moment of them: nothing is lost, falsified, or with exactly-once there twice.
func TestReloads(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, reloads)
}

func reloads(t *testing.T, b *world.Bus) {
	p := underLoad(t, b, "", nil)
	f := newEnvFile(t, p.Daemon)
	stop := begins(p)
	without := func(stream string) world.Env {
		e := maps.Clone(f.all)
		maps.DeleteFunc(e, func(name, _ string) bool {
			return strings.HasPrefix(name, "BRIDGE_STREAM_"+strings.ToUpper(stream)+"_")
		})
		e["BRIDGE_STREAMS"] = strings.Join(slices.DeleteFunc(strings.Split(e["BRIDGE_STREAMS"], ","), func(s string) bool { return s == stream }), ",")
		return e
	}
	changed := f.all.With(world.Env{"BRIDGE_STREAM_ORDERS_POLL_INTERVAL": "50ms", "BRIDGE_STREAM_STRICT_STABILITY_WINDOW": "500ms"})
	kills := 0
	for round, e := range []world.Env{without(world.Orders), f.all, changed, without(world.Strict), f.all} {
		f.write(e)
		reload(p.Daemon)
		f.write(f.all)
		for range 3 {
			world.Pause(world.Between(0, 500*time.Millisecond))
			p.Signal(syscall.SIGHUP)
			if round%2 == 0 {
				continue
			}
			world.Pause(world.Between(0, 200*time.Millisecond))
			p.Kill()
			p.Start()
			kills++
			world.AwaitReady(t, p.Daemon)
		}
	}
	arrives(p)
	stop()
	if n := strings.Count(p.Log.String(), "configuration reloaded"); n < 5 {
		t.Errorf("there were %d reloads", n)
	}
	p.MustHold(p.MostRepeats(kills), world.Expect{})
}

// TestAStandbyGroupReloads reloads the process that waits, then the one that works: that goes on to
// work, and the other one takes over with the new configuration.
func TestAStandbyGroupReloads(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p := newStandby(t, b, false)
		f := newEnvFile(t, p.Daemon)
		g := world.NewGroup(p, shortTimeout, nil, nil)
		_, stop := p.World.Write()
		g.Published(time.Minute, "what is written arrives")
		g.Ready()
		works, waits := g.Pair()
		before, _ := works.Standby()
		f.write(f.all.With(world.Env{"BRIDGE_STREAM_ORDERS_TAG": "x"}))
		reload(waits.Daemon)
		world.Eventually(t, time.Minute, "the one that waits says what differs", func() bool {
			s, ok := waits.Standby()
			return ok && slices.Equal(s.Differing, []string{"BRIDGE_STREAM_ORDERS_TAG"})
		})
		reload(works.Daemon)
		g.Ready()
		if s, ok := works.Standby(); !ok || !s.Works || s.Member != before.Member || !s.Since.Equal(before.Since.Time) {
			t.Errorf("before the reload %+v, behind it %+v, %t", before, s, ok)
		}
		g.Published(time.Minute, "it goes on")
		g.Killed()
		g.Published(time.Minute, "the other one goes on")
		stop()
		g.Compare(1)
	})
}
