package torture

import (
	"net/http"
	"strings"
	"syscall"
	"time"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/world"
)

// processFaults are done to the process of bridge itself.
var processFaults = []fault{
	{
		name: "bridge-killed", family: "bridge", what: "SIGKILL at random moments, again and again", repeats: true,
		inject: func(tr *trial) {
			for range tr.times(5) {
				tr.sometime(1500 * time.Millisecond)
				tr.kill()
				tr.sometime(1500 * time.Millisecond)
				tr.Start()
			}
		},
	},
	{
		name: "bridge-terminated", family: "bridge", what: "SIGTERM under load, then a start, three times",
		inject: func(tr *trial) {
			for range tr.times(3) {
				tr.sometime(time.Second)
				tr.terminate()
				tr.Start()
				tr.flows()
			}
		},
	},
	{
		name: "bridge-paused", family: "bridge", what: "SIGSTOP for 30 s, as a paused virtual machine", soaks: true,
		inject: func(tr *trial) {
			tr.Signal(syscall.SIGSTOP)
			tr.outage(30 * time.Second)
			tr.Signal(syscall.SIGCONT)
		},
	},
}

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
		name: "owner-hangs", family: "bridge", what: "the loops that read stand still for 75 s: /livez fails after one minute", prepare: withFailpoints,
		inject: func(tr *trial) {
			tr.points.Set(failpoint.Action{Point: failpoint.OwnerLoop, Hang: true})
			begun := time.Now()
			for limit := begun.Add(tr.within(50 * time.Second)); time.Now().Before(limit); world.Pause(time.Second) {
				if code, body := tr.Get("/livez"); code != http.StatusOK {
					tr.score.find("/livez is %d %s after it: %s", code, time.Since(begun), body)
				}
			}
			if !*tortureShort {
				world.Eventually(tr.T, time.Minute, "/livez fails", func() bool {
					code, body := tr.Get("/livez")
					return code == http.StatusServiceUnavailable && strings.Contains(body, "has shown no heartbeat for")
				})
			}
			tr.points.Set()
			world.Eventually(tr.T, time.Minute, "/livez is well again", func() bool { code, _ := tr.Get("/livez"); return code == http.StatusOK })
		},
	},
}

// killedAt is the fault of a SIGKILL at points, several times, at the first pass or some time
// after: whatever the program does at its start is met as well.
func killedAt(name, when string, points ...failpoint.Point) fault {
	return fault{
		name: name, family: "bridge", what: "SIGKILL " + when + ", again and again", repeats: true, prepare: withFailpoints,
		inject: func(tr *trial) {
			chances := []float64{1, 0.1, 0.03, 0.3, 0.03}
			for turn := range tr.times(12) {
				tr.points.Set(kills(points, chances[turn%len(chances)])...)
				select {
				case <-tr.Done:
				case <-time.After(tr.within(20 * time.Second)):
					// A slow machine passes the point too seldom.
					tr.points.Set(kills(points, 1)...)
				}
				tr.endOf(tr.Daemon)
				tr.cuts++
				if by := tr.Cmd.ProcessState.Sys().(syscall.WaitStatus); by.Signal() != syscall.SIGKILL {
					tr.score.find("the program ended by itself: %v", tr.Cmd.ProcessState)
				}
				if turn == tr.times(12)-1 {
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
		name: name, family: "bridge", what: "SIGKILL at a start, " + when + ", again and again", repeats: true, prepare: withFailpoints,
		inject: func(tr *trial) {
			met, chances := 0, []float64{1, 0.5, 0.3}
			for turn := range tr.times(8) {
				tr.sometime(2 * time.Second)
				tr.kill()
				tr.points.Set(kills(points, chances[turn%len(chances)])...)
				tr.Start()
				world.Eventually(tr.T, time.Minute, "the start has ended", func() bool {
					code, _ := tr.Get("/readyz")
					return code == http.StatusOK || tr.Ended()
				})
				select {
				case <-tr.Done:
				case <-time.After(2 * time.Second): // for what a start leaves behind
				}
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

// kills are actions that kill the program at points with a probability.
func kills(points []failpoint.Point, chance float64) (actions []failpoint.Action) {
	for _, point := range points {
		actions = append(actions, failpoint.Action{Point: point, Kill: true, Chance: chance})
	}
	return actions
}

// withFailpoints has the trial run a program with failpoints, none of them set.
func withFailpoints(tr *trial) {
	tr.T.Helper()
	tr.points = world.NewFailpoints(tr.T)
	tr.Daemon.Path = world.Faulty(tr.T)
	tr.Env = tr.Env.With(tr.points.Env())
	if *tortureShort {
		tr.Env[failpoint.SyncVariable] = "3s"
	}
}
