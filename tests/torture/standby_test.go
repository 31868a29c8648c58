package torture

import (
	"net/url"
	"slices"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

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
					status, ok := cut.Status()
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

// withStandby has two processes publish, of which the first one reaches its servers through
// proxies.
func withStandby(tr *trial) {
	tr.T.Helper()
	plain := tr.Env
	tr.Env = plain.With(nil)
	through(tr)
	proxied := tr.Env.WithoutOwn()
	tr.Env = plain
	tr.group = world.NewGroup(tr.Publisher, standbyTimeout(), proxied, nil)
}

// serverFaults are done to database and bus.
var serverFaults = slices.Concat(
	faultsOf("bus", func(tr *trial) world.Server { return tr.Bus.Server() }, true),
	faultsOf("database", func(tr *trial) world.Server { return tr.servers.db }, false),
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
				tr.often(5*time.Second, 100*time.Millisecond, func() { killed += tr.servers.db.KillConnections(tr.T, tr.reader()) })
				tr.met(killed, "no connection was there to be killed")
			},
		},
		{
			name: "queries-killed", family: "database", what: "the statements of bridge killed in mid-result, every 2 ms for 5 s", soaks: true,
			inject: func(tr *trial) {
				killed := 0
				tr.often(5*time.Second, 2*time.Millisecond, func() { killed += tr.servers.db.KillQueries(tr.T, tr.reader()) })
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
					tr.score.find("elsewhere: %d messages of %d rows, there are %d", len(published), len(ids), rows)
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

// faultsOf returns what can be done to a server of a family.
func faultsOf(family string, of func(*trial) world.Server, repeats bool) []fault {
	return []fault{
		{
			name: family + "-killed", family: family, what: "SIGKILL, away for 10 s, twice", repeats: repeats, soaks: true,
			inject: func(tr *trial) {
				for range 2 {
					of(tr).Kill()
					if repeats {
						tr.cuts++
					}
					tr.outage(10 * time.Second)
					of(tr).Start(tr.T)
					tr.sometime(time.Second)
				}
			},
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

// often repeats something for a while.
func (tr *trial) often(d, every time.Duration, do func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		do()
	}
}

// reader is the login with which bridge reads.
func (tr *trial) reader() string {
	tr.T.Helper()
	u, err := url.Parse(tr.World.URL)
	tr.check(err)
	return u.User.Username()
}
