package acceptance

import (
	"strings"
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

func TestOutagesInMidStreamLoseNothing(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		server := testenv.StartMariaDB(t)
		p := publishTwice(t, server, b, backlogRows/3, world.Binary(t, true), world.Env{"BRIDGE_BATCH_ROWS": "250"})
		p.Start()
		wait, _ := p.World.Write()
		for range 2 {
			for _, s := range []world.Server{b.Server(), server} {
				world.Pause(world.Between(300*time.Millisecond, 1500*time.Millisecond))
				s.Kill()
				world.AwaitUnready(t, p.Daemon)
				s.Start(t)
			}
		}
		wait()
		p.Drained()
		world.AwaitReady(t, p.Daemon)
		if status, _ := p.Term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		mustMatchBoth(p)
		if log := p.Log.String(); strings.Contains(log, "DATA RACE") {
			t.Errorf("data race:\n%s", log)
		}
	})
}

func TestAllAbsentAtStartIsWaitedFor(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		server := testenv.StartMariaDB(t)
		p := publishTwice(t, server, b, 20_000, "", nil)
		server.Kill()
		b.Server().Kill()

		p.Start()
		world.AwaitUnready(t, p.Daemon)
		world.Pause(10 * time.Second)
		if code, body := p.Get("/livez"); code != 200 {
			t.Errorf("/livez %d: %s", code, body)
		}
		if n := p.Log.Lines(); n > 30 {
			t.Errorf("%d lines of log in 10 s of waiting:\n%s", n, p.Log)
		}
		if !strings.Contains(p.Log.String(), "outage begins") {
			t.Errorf("the log does not say what is waited for:\n%s", p.Log)
		}
		server.Start(t)
		world.Pause(time.Second)
		world.AwaitUnready(t, p.Daemon)
		b.Server().Start(t)
		p.Drained()
		world.AwaitReady(t, p.Daemon)
		if status, _ := p.Term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		mustNotRepeat(p)
	})
}
