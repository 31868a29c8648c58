package torture

import (
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

var processFaults = []fault{
	{
		name: "bridge-killed", family: "bridge", what: "SIGKILL at random moments", repeats: true,
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
					tr.score.Find("/livez is %d %s after it: %s", code, time.Since(begun), body)
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
		name: name, family: "bridge", what: "SIGKILL " + when + "", repeats: true, prepare: withFailpoints,
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
				tr.WaitKilled()
				tr.cuts++
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
		name: name, family: "bridge", what: "SIGKILL at a start, " + when + "", repeats: true, prepare: withFailpoints,
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

func kills(points []failpoint.Point, chance float64) (actions []failpoint.Action) {
	for _, point := range points {
		actions = append(actions, failpoint.Action{Point: point, Kill: true, Chance: chance})
	}
	return actions
}

// None of the failpoints is set.
func withFailpoints(tr *trial) {
	tr.T.Helper()
	tr.points = world.NewFailpoints(tr.T)
	tr.Daemon.Path = world.Faulty(tr.T)
	tr.Env = tr.Env.With(tr.points.Env())
	if *tortureShort {
		tr.Env[failpoint.SyncVariable] = "3s"
	}
}

// standbyTimeout returns BRIDGE_STANDBY_TIMEOUT of the trials. In the short form eight share the
// machine: processes are without a processor for seconds, and must not lose the work by that.
func standbyTimeout() time.Duration {
	if *tortureShort {
		return 8 * time.Second
	}
	return 3 * time.Second
}

// standbyFaults are done to the one that works of two processes of a standby group. What else ends
// its work is in the acceptance tests.
var standbyFaults = []fault{
	{
		name: "standby-cut", family: "standby", repeats: true, prepare: withStandby,
		what: "the way to the bus of the one that works swallows all data, the other one takes over, and 10 s later the way heals, twice",
		inject: func(tr *trial) {
			for range 2 {
				tr.group.MoveTo(tr.group.Members[0])
				tr.cuts++
				cut := tr.group.Replace("half-open", func(*world.Member) { tr.servers.busProxy.HalfOpen() })
				tr.outage(10 * time.Second)
				world.Eventually(tr.T, 30*time.Second, "the one that is cut off is alive, works not, and is not ready", func() bool {
					status, ok := cut.Standby()
					ready, _ := cut.Daemon.Get("/readyz")
					live, _ := cut.Daemon.Get("/livez")
					return ok && !status.Works && ready == 503 && live == 200
				})
				tr.servers.busProxy.Heal()
				tr.group.Waits(cut)
			}
		},
	},
}

// The first of the two processes reaches its servers through proxies.
func withStandby(tr *trial) {
	tr.T.Helper()
	plain := tr.Env
	tr.Env = plain.With(nil)
	through(tr)
	proxied := tr.Env.WithoutOwn()
	tr.Env = plain
	tr.group = world.NewGroup(tr.Publisher, standbyTimeout(), proxied, nil)
}

var serverFaults = slices.Concat(
	faultsOf("bus", func(tr *trial) world.Server { return tr.Bus.Server() }, true),
	faultsOf("database", databaseOf, false),
	[]fault{
		{
			name: "bus-servers-killed", family: "bus", what: "on a bus of three servers one after the other is killed, and away for 10 s", repeats: true,
			on: clustered,
			inject: func(tr *trial) {
				for _, member := range tr.Bus.Members {
					member.Kill()
					tr.cuts++
					tr.outage(10 * time.Second)
					member.Start(tr.T)
					for _, stream := range bothStreams {
						tr.Bus.Whole(tr.T, tr.Destination(stream))
					}
				}
			},
		},
		{
			name: "connections-killed", family: "database", what: "all connections of bridge killed, every 100 ms for 5 s", soaks: true,
			inject: func(tr *trial) {
				killed := 0
				tr.often(5*time.Second, 100*time.Millisecond, func() { killed += tr.servers.db.KillConnections(tr.T, tr.World.User) })
				tr.met(killed, "no connection was there to be killed")
			},
		},
		{
			name: "queries-killed", family: "database", what: "the statements of bridge killed in mid-result, every 2 ms for 5 s", soaks: true,
			inject: func(tr *trial) {
				killed := 0
				tr.often(5*time.Second, 2*time.Millisecond, func() { killed += tr.servers.db.KillQueries(tr.T, tr.World.User) })
				tr.met(killed, "no statement was there to be killed")
			},
		},
		{
			name: "one-of-two-databases-away", family: "database", prepare: withSecondServer,
			what: "a third stream is on a server of its own, which is killed and away for 5 s, then stands still for as long, twice: " +
				"the other streams go on",
			inject: func(tr *trial) {
				rows := uint64(0)
				insert := func() {
					rows += 50
					tr.second.Exec("INSERT INTO elsewhere (token) SELECT seq FROM " + testenv.Sequence(50))
				}
				harm := func(begin, end func()) {
					insert()
					begin()
					for _, stream := range bothStreams {
						tr.goesOn(stream)
					}
					tr.outage(5 * time.Second)
					end()
					insert()
					world.Eventually(tr.T, 2*time.Minute, "the rows of the other server are published", func() bool {
						return tr.Position("elsewhere") >= tr.second.Highest("elsewhere")
					})
				}
				for range tr.times(2) {
					harm(tr.second.Server.Kill, func() { tr.second.Server.Start(tr.T) })
					harm(tr.second.Server.Pause, tr.second.Server.Resume)
				}
				published, ids := tr.Bus.ReadAll(tr.T, tr.Destination("elsewhere")), make(map[string]bool)
				for _, m := range published {
					ids[m.Headers[sink.HeaderRowID]] = true
				}
				if uint64(len(published)) != rows || uint64(len(ids)) != rows {
					tr.score.Find("elsewhere: %d messages of %d rows, there are %d", len(published), len(ids), rows)
				}
			},
		},
		{
			name: "all-servers-killed", family: "several at once", what: "SIGKILL of bus and database and bridge together", repeats: true,
			inject: func(tr *trial) {
				// One that is alone, and changes its key and the rest until it is read again, would
				// look like a row that took over the id of a lost one.
				world.Eventually(tr.T, 2*time.Minute, "there are 40 entities", func() bool {
					rows := 0
					tr.World.Scan("SELECT COUNT(*) FROM "+entities, &rows)
					return rows >= 40
				})
				tr.CaughtUp(time.Minute, "they arrive")
				tr.Bus.Server().Kill()
				tr.cuts++
				tr.servers.db.Kill()
				tr.kill()
				tr.outage(10 * time.Second)
				tr.Daemon.Start()
				tr.sometime(3 * time.Second)
				tr.servers.db.Start(tr.T)
				tr.Bus.Server().Start(tr.T)
			},
		},
		{
			name: "bridge-terminated-without-bus", family: "several at once", what: "SIGTERM while the bus stands still, until the shutdown limit has passed",
			repeats: true,
			prepare: func(tr *trial) { tr.Env["BRIDGE_SHUTDOWN_TIMEOUT"] = "2s" },
			inject: func(tr *trial) {
				tr.Bus.Server().Pause()
				tr.outage(5 * time.Second)
				tr.Term()
				tr.cuts++
				tr.Daemon.Start()
				tr.Bus.Server().Resume()
			},
		},
		{
			name: "bridge-killed-without-bus", family: "several at once", what: "bridge killed again and again while the bus stands still", repeats: true,
			inject: func(tr *trial) {
				tr.Bus.Server().Pause()
				for range tr.times(3) {
					tr.outage(4 * time.Second)
					tr.kill()
					tr.Daemon.Start()
				}
				tr.Bus.Server().Resume()
			},
		},
	},
)

// withSecondServer has the program publish a third stream, of a table on a server of its own.
func withSecondServer(tr *trial) {
	tr.T.Helper()
	tr.second = world.Empty(tr.T, testenv.StartMariaDB(tr.T))
	tr.second.Exec("CREATE TABLE elsewhere (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, token varchar(64) NOT NULL) ENGINE=InnoDB")
	tr.Env = tr.Env.With(world.StreamEnv("elsewhere", world.Env{
		"TABLE": "b/" + tr.second.Name + ".elsewhere", "KIND": "release", "DESTINATION": tr.Bus.Open(tr.T, tr.Destination("elsewhere")),
	})).With(world.Env{"BRIDGE_STREAMS": tr.Env["BRIDGE_STREAMS"] + ",elsewhere", "BRIDGE_SOURCES": "b", "BRIDGE_SOURCE_B_URL": tr.second.URL})
}

func databaseOf(tr *trial) world.Server { return tr.servers.db }

func killedTwice(of func(*trial) world.Server, repeats bool) func(*trial) {
	return func(tr *trial) {
		for range 2 {
			of(tr).Kill()
			if repeats {
				tr.cuts++
			}
			tr.outage(10 * time.Second)
			of(tr).Start(tr.T)
			tr.sometime(time.Second)
		}
	}
}

func faultsOf(family string, of func(*trial) world.Server, repeats bool) []fault {
	return []fault{
		{
			name: family + "-killed", family: family, what: "SIGKILL, away for 10 s, twice", repeats: repeats, soaks: true,
			inject: killedTwice(of, repeats),
		},
		{
			name: family + "-restarted", family: family, what: "ended in good order, started again with its state at once, twice", soaks: true,
			inject: func(tr *trial) {
				for range 2 {
					of(tr).Stop()
					of(tr).Start(tr.T)
					tr.sometime(time.Second)
				}
			},
		},
		{
			name: family + "-paused", family: family, what: "SIGSTOP for 30 s: connections are open, nothing answers", soaks: true,
			inject: func(tr *trial) {
				of(tr).Pause()
				tr.outage(30 * time.Second)
				of(tr).Resume()
			},
		},
	}
}

func (tr *trial) often(d, every time.Duration, do func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		do()
	}
}
