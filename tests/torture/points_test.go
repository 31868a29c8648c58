package torture

import (
	"strings"
	"syscall"
	"time"

	"bridge/tests/faulty/failpoint"
	"bridge/tests/world"
)

// pointFaults end the program at each point of the way of a row.
var pointFaults = []fault{
	killedAt("killed-before-read", "before a page or named rows are read", failpoint.BeforeRead, failpoint.BeforeReread),
	killedAt("killed-after-read", "when a page or named rows have been read", failpoint.AfterRead, failpoint.AfterReread),
	killedAt("killed-before-publish", "before a batch is handed to the bus", failpoint.BeforePublish),
	killedAt("killed-after-publish", "when the bus has taken a batch", failpoint.AfterPublish),
	killedAt("killed-before-ack", "when the bus has acknowledged all of a batch", failpoint.BeforeAck),
	killedAt("killed-after-ack", "when a batch is done", failpoint.AfterAck),
	killedAt("killed-before-save", "before a batch is committed to the store", failpoint.BeforeSave),
	killedAt("killed-after-save", "when a batch is committed to the store, in memory", failpoint.AfterSave),
	killedAtStart("killed-in-sync", "while the store makes its files durable", failpoint.StoreSync, failpoint.ManifestSync),
	killedAtStart("killed-in-catch-up", "before and after what catch-up has read is committed", failpoint.BeforeCatchUp, failpoint.AfterCatchUp),
	{
		name: "owner-hangs", family: "bridge", what: "the loops that read stand still for 75 s: /livez fails after one minute",
		prepare: func(tr *trial) { tr.withFailpoints() },
		inject: func(tr *trial) {
			tr.points.Set(failpoint.Action{Point: failpoint.OwnerLoop, Hang: true})
			begun := time.Now()
			for limit := begun.Add(50 * time.Second); time.Now().Before(limit); tr.outage(5 * time.Second) {
				if code, body := tr.Get("/livez"); code != 200 {
					tr.score.find("/livez is %d %s after it: %s", code, time.Since(begun), body)
				}
				if *tortureShort && time.Since(begun) > 4*time.Second {
					break
				}
			}
			if !*tortureShort {
				world.Eventually(tr.T, time.Minute, "/livez fails", func() bool {
					code, body := tr.Get("/livez")
					return code == 503 && strings.Contains(body, "has shown no heartbeat for")
				})
			}
			tr.points.Set()
			world.Eventually(tr.T, time.Minute, "/livez is well again", func() bool { code, _ := tr.Get("/livez"); return code == 200 })
		},
	},
}

// killedAt is the fault of a SIGKILL at points, several times and each time by chance.
func killedAt(name, when string, points ...failpoint.Point) fault {
	return fault{
		name: name, family: "bridge", what: "SIGKILL " + when + ", again and again", repeats: true,
		prepare: func(tr *trial) { tr.withFailpoints() },
		inject: func(tr *trial) {
			kills := 12
			if *tortureShort {
				kills = 6
			}
			for turn := range kills {
				// At its first pass or some time after; whatever the program does at its start is
				// met as well.
				probability := []float64{1, 0.3, 0.1, 0.03, 0.03}[tr.rng.IntN(5)]
				var actions []failpoint.Action
				for _, point := range points {
					actions = append(actions, failpoint.Action{Point: point, Kill: true, Chance: probability})
				}
				tr.points.Set(actions...)
				meets(tr, actions)
				tr.ended()
				tr.cuts++
				if by := tr.Cmd.ProcessState.Sys().(syscall.WaitStatus); by.Signal() != syscall.SIGKILL {
					tr.score.find("the program ended by itself: %v", tr.Cmd.ProcessState)
				}
				if turn == kills-1 {
					tr.points.Set()
				}
				tr.Start()
			}
		},
	}
}

// killedAtStart is the fault of a SIGKILL at points that a start passes when it has something to
// read from the bus. The program is killed before, so that it has.
func killedAtStart(name, when string, points ...failpoint.Point) fault {
	return fault{
		name: name, family: "bridge", what: "SIGKILL at a start, " + when + ", again and again", repeats: true,
		prepare: func(tr *trial) { tr.withFailpoints() },
		inject: func(tr *trial) {
			met := 0
			for range 8 {
				tr.sometime(2 * time.Second)
				tr.kill()
				var actions []failpoint.Action
				for _, point := range points {
					actions = append(actions, failpoint.Action{Point: point, Kill: true, Chance: []float64{1, 0.5, 0.3}[tr.rng.IntN(3)]})
				}
				tr.points.Set(actions...)
				tr.Start()
				startEnds(tr)
				tr.points.Set()
				// It passes points by the former list a moment longer.
				world.Pause(200 * time.Millisecond)
				if tr.Ended() {
					tr.cuts++
					met++
					tr.Start()
				}
			}
			tr.met(met, "no start was killed")
		},
	}
}

// startEnds waits until a start has ended: the program has, or it is ready and has had a while for
// what a start leaves behind.
func startEnds(tr *trial) {
	tr.T.Helper()
	world.Eventually(tr.T, time.Minute, "the start has ended", func() bool {
		code, _ := tr.Get("/readyz")
		return code == 200 || tr.Ended()
	})
	select {
	case <-tr.Done:
	case <-time.After(2 * time.Second):
	}
}

// meets waits for a kill by chance, for a while: a slow machine passes a point too seldom, and is
// then killed at the next pass.
func meets(tr *trial, kills []failpoint.Action) {
	tr.T.Helper()
	select {
	case <-tr.Done:
	case <-time.After(20 * time.Second):
		for i := range kills {
			kills[i].Chance = 1
		}
		tr.points.Set(kills...)
	}
}

// withFailpoints has the trial run a program with failpoints, none of them set.
func (tr *trial) withFailpoints() {
	tr.T.Helper()
	tr.points = world.NewFailpoints(tr.T)
	tr.Daemon.Path = world.Faulty(tr.T)
	tr.Env = tr.Env.With(tr.points.Env())
}
