package acceptance

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/world"
)

// TestPause pauses a stream and a table of another one under load, at least once and exactly once.
// Nothing of them is published until they are resumed, though bridge is killed at random, and loses
// its folder; then nothing is lost, and what was committed meanwhile is there, late rows too.
func TestPause(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, pause)
}

// rests reports whether both streams of a bridge are paused, and it is ready.
func rests(d *world.Daemon) bool {
	code, _ := d.Get("/readyz")
	orders, strict := d.Shards(world.Orders), d.Shards(world.Strict)
	return code == http.StatusOK && len(orders)+len(strict) == 2 && orders[0].State == "paused" && strict[0].State == "paused"
}

func pause(t *testing.T, b *world.Bus) {
	p := underLoad(t, b, world.Binary(t, world.RaceDetector), progressOnBus(t, b))
	stop := begins(p)
	open := p.World.Begin("late", 1)
	id := open.FirstID()
	world.Eventually(t, 2*time.Minute, "an open transaction has been passed", func() bool { return p.Position(world.Orders) > id })

	must(t, p.Daemon, 0, "pause", world.Orders)
	must(t, p.Daemon, 0, "pause", world.Strict, "--table", world.Strict)
	before := published(p)
	const cuts = 4
	for n := range cuts {
		world.Eventually(t, 2*time.Minute, "both are paused, and bridge is ready", func() bool { return rests(p.Daemon) })
		if p.Metric(`bridge_paused_since_timestamp_seconds`) == 0 || p.Metric(`bridge_shard_state`) == 0 {
			t.Error("the metrics do not say it")
		}
		if n == 1 {
			open.Commit()
		}
		world.Pause(world.Between(0, 2*time.Second))
		p.Kill()
		if n%2 == 1 {
			p.LoseCheckpoint()
		}
		p.Start()
		if n == cuts-1 {
			break
		}
		world.Pause(world.Between(0, time.Second))
	}
	world.Eventually(t, 2*time.Minute, "both are paused still", func() bool { return rests(p.Daemon) })
	if code, body := p.Post("/api/v1/streams/" + world.Strict + "/reconcile"); code != http.StatusConflict || !strings.Contains(body, "bridge resume strict") {
		t.Errorf("a reconcile of a paused stream: %d %s", code, body)
	}
	if after := published(p); after != before {
		t.Errorf("%v messages at the pause, %v later", before, after)
	}
	must(t, p.Daemon, 1, "resume", world.Orders, "--table", world.Orders)
	must(t, p.Daemon, 0, "resume", world.Orders)
	must(t, p.Daemon, 0, "resume", world.Strict)
	world.Pause(world.Between(0, time.Second))
	p.Kill()
	p.Start()
	arrives(p)
	stop()
	if f := p.MustHold(p.MostRepeats(1), world.Expect{}); f.Late == 0 {
		t.Error("no row was late: the test shows nothing")
	}
}

// TestAPauseOutlivesATakeover pauses both streams by way of a process that waits as a standby, and
// kills the one that works: the next one knows it, with a folder of its own.
func TestAPauseOutlivesATakeover(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p := underLoad(t, b, world.Binary(t, world.RaceDetector), progressOnBus(t, b))
		token := world.Env{"BRIDGE_HTTP_TOKEN": "0123456789abcdef"}
		g := world.NewGroup(p, shortTimeout, token.With(ownFolder(t)), token.With(ownFolder(t)))
		_, stop := p.World.Write()
		g.Published(2*time.Minute, "what is written arrives")
		g.Ready()
		for round := range 2 {
			works, waits := g.Pair()
			if round == 0 {
				must(t, waits.Daemon, 0, "pause", world.Orders)
				must(t, waits.Daemon, 0, "pause", world.Strict)
			}
			before := published(p)
			works.Kill()
			world.Eventually(t, 2*time.Minute, "the other one works, and both streams are paused", func() bool {
				s, ok := waits.Status()
				return ok && s.Works && rests(waits.Daemon)
			})
			works.Restart()
			g.Ready()
			if after := published(p); after != before {
				t.Errorf("%v messages before it was killed, %v later", before, after)
			}
		}
		must(t, g.Members[0].Daemon, 0, "resume", world.Orders)
		must(t, g.Members[0].Daemon, 0, "resume", world.Strict)
		g.Published(2*time.Minute, "what was written meanwhile arrives")
		stop()
		g.Compare(0)
	})
}

// must types a command and fails the test unless it ends with a status.
func must(t *testing.T, d *world.Daemon, want int, args ...string) {
	t.Helper()
	if status, stdout, stderr := world.Command(t, d.Env, args...); status != want {
		t.Fatalf("bridge %s: exit status %d\n%s%s", strings.Join(args, " "), status, stdout, stderr)
	}
}

// published counts the messages of both streams.
func published(p *world.Publisher) [2]int {
	return [2]int{len(p.Received(world.Orders)), len(p.Received(world.Strict))}
}
