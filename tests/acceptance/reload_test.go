package acceptance

import (
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
	"example.org/bridge/tests/world"
)

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

// write replaces the file.
func (f *envFile) write(e world.Env) {
	f.t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e)) {
		fmt.Fprintf(&text, "%s='%s'\n", name, e[name])
	}
	write(f.t, f.path, text.String())
}

// reload asks for a reload, and returns when that has ended.
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
		before, _ := works.Status()
		f.write(f.all.With(world.Env{"BRIDGE_STREAM_ORDERS_TAG": "x"}))
		reload(waits.Daemon)
		world.Eventually(t, time.Minute, "the one that waits says what differs", func() bool {
			s, ok := waits.Status()
			return ok && slices.Equal(s.Differing, []string{"BRIDGE_STREAM_ORDERS_TAG"})
		})
		reload(works.Daemon)
		g.Ready()
		if s, ok := works.Status(); !ok || !s.Works || s.Member != before.Member || !s.Since.Equal(before.Since) {
			t.Errorf("before the reload %+v, behind it %+v, %t", before, s, ok)
		}
		g.Published(time.Minute, "it goes on")
		g.Killed()
		g.Published(time.Minute, "the other one goes on")
		stop()
		g.Compare(1)
	})
}
