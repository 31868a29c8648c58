package acceptance

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

func TestBacklogAndLiveRowsArriveComplete(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p := publishTwice(t, testenv.MariaDB(t), b, backlogRows, "", nil)
		p.Start()
		p.World.Run()
		p.Drained()
		world.AwaitReady(t, p.Daemon)
		if status, took := p.Term(); status != 0 {
			t.Errorf("exit status %d after %s", status, took)
		}
		mustNotRepeat(p)
	})
}

func TestKillsAtRandomMomentsLoseNothing(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p := publishTwice(t, testenv.MariaDB(t), b, backlogRows, "", nil)
		wait, _ := p.World.Write()
		for range 20 {
			// Small batches spread the backlog over all the kills.
			p.Env["BRIDGE_BATCH_ROWS"] = fmt.Sprint(100 + rand.IntN(400))
			p.Start()
			world.Pause(world.Between(50*time.Millisecond, 700*time.Millisecond))
			p.Kill()
		}
		p.Start()
		wait()
		p.Drained()
		if status, _ := p.Term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		mustMatchBoth(p)
	})
}

func TestTerminationInMidStreamRepeatsNothing(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p := publishTwice(t, testenv.MariaDB(t), b, backlogRows, "", world.Env{"BRIDGE_BATCH_ROWS": "250"})
		for range 6 {
			p.Start()
			// A program that does not handle signals yet ends by them.
			world.Eventually(t, time.Minute, "the program answers", func() bool { code, _ := p.Get("/livez"); return code != 0 })
			world.Pause(world.Between(0, 500*time.Millisecond))
			// Beyond BRIDGE_SHUTDOWN_TIMEOUT the status is another one.
			if status, took := p.Term(); status != 0 {
				t.Fatalf("exit status %d after %s", status, took)
			}
		}
		p.Start()
		p.Drained()
		if status, _ := p.Term(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		mustNotRepeat(p)
	})
}
