package torture

import (
	"strings"
	"time"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// clockFaults set the clocks of bridge's host and of the database wrong.
var clockFaults = []fault{
	hostClock("clock-ahead", "the host's clock is 1 h ahead from the start on", "1h"),
	hostClock("clock-behind", "the host's clock is 1 h behind from the start on", "-1h"),
	hostClock("clock-jumps-ahead", "the host's clock jumps ahead by 1 h while bridge runs", "1h@5s"),
	hostClock("clock-jumps-behind", "the host's clock jumps back by 1 h while bridge runs", "-1h@5s"),
	{
		name: "database-clock-back", family: "disk and clock", what: "the database's clock steps back by 5 s, and forth again, twice",
		prepare: withFailpoints,
		inject: func(tr *trial) {
			for range 2 {
				tr.points.Set(failpoint.Action{Point: failpoint.DatabaseClock, Shift: -5 * time.Second})
				tr.outage(20 * time.Second)
				tr.flows()
				tr.points.Set()
				tr.outage(2 * time.Second)
				tr.flows()
			}
		},
	},
}

// hostClock is the fault of a wrong clock of the host, which is set right before the program is
// started again: what it has saved is then of another time.
func hostClock(name, what, wrong string) fault {
	return fault{
		name: name, family: "disk and clock", what: what + ", then it is set right and bridge is started again",
		prepare: func(tr *trial) {
			tr.Daemon.Path = world.Faulty(tr.T)
			tr.Env[failpoint.ClockVariable] = wrong
		},
		inject: func(tr *trial) {
			tr.outage(30 * time.Second)
			tr.flows()
			if by := time.Until(tr.Shards(facts)[0].LastPoll).Abs(); by < 50*time.Minute {
				tr.score.find("the program's clock was wrong by no more than %s", by)
			}
			tr.terminate()
			delete(tr.Env, failpoint.ClockVariable)
			tr.Start()
		},
	}
}

// through has bridge reach its servers through proxies, which networkFaults do their harm to.
func through(tr *trial) {
	tr.Env["BRIDGE_SOURCE_URL"] = strings.Replace(tr.Env["BRIDGE_SOURCE_URL"], tr.servers.db.Addr, tr.servers.dbProxy.Addr(), 1)
	tr.Env["BRIDGE_SINK_URL"] = tr.Bus.String() + "://" + tr.servers.busProxy.Addr()
}

// networkFaults are done to the ways between bridge and its servers.
var networkFaults = []fault{
	onNetwork("network-latency", "200 ms more in each direction, for 60 s", both, func(p *testenv.Proxy) { p.Latency(200 * time.Millisecond) }),
	onNetwork("network-resets", "1 % of all pieces of data lost with a reset of their connection, for 60 s", both,
		func(p *testenv.Proxy) { p.Resets(0.01) }),
	onNetwork("network-bandwidth", "256 kB/s, for 60 s", both, func(p *testenv.Proxy) { p.Bandwidth(256_000) }),
	onNetwork("network-half-open-bus", "the way to the bus swallows all data, connections stay open, for 60 s", toBus, (*testenv.Proxy).HalfOpen),
	onNetwork("network-half-open-database", "the way to the database swallows all data, connections stay open, for 60 s", toDatabase, (*testenv.Proxy).HalfOpen),
	onNetwork("network-cut-bus", "the way to the bus cut for 60 s", toBus, (*testenv.Proxy).Cut),
	onNetwork("network-cut-database", "the way to the database cut for 60 s", toDatabase, (*testenv.Proxy).Cut),
	onNetwork("network-cut-both", "both ways cut for 60 s", both, (*testenv.Proxy).Cut),
	{
		name: "results-cut", family: "network", prepare: through,
		what: "64 kB/s on the way to the database, and all connections reset at random moments for 8 s: results end in the middle",
		inject: func(tr *trial) {
			p := tr.servers.dbProxy
			p.Bandwidth(64_000)
			open := 0
			for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
				world.Pause(300 * time.Millisecond)
				tr.sometime(time.Second)
				open += p.Open()
				p.Drop()
			}
			p.Heal()
			tr.met(open, "no connection was there to be reset")
		},
	},
}

func toBus(l *servers) []*testenv.Proxy      { return []*testenv.Proxy{l.busProxy} }
func toDatabase(l *servers) []*testenv.Proxy { return []*testenv.Proxy{l.dbProxy} }
func both(l *servers) []*testenv.Proxy       { return append(toBus(l), toDatabase(l)...) }

// onNetwork returns a fault of some ways, for a minute.
func onNetwork(name, what string, ways func(*servers) []*testenv.Proxy, harm func(*testenv.Proxy)) fault {
	// What is slow breaks nothing.
	breaks := name != "network-latency" && name != "network-bandwidth"
	return fault{
		name: name, family: "network", what: what, prepare: through, soaks: true,
		inject: func(tr *trial) {
			open, before := 0, 0
			for _, p := range ways(tr.servers) {
				open, before = open+p.Open(), before+p.Broken()
				harm(p)
			}
			tr.outage(time.Minute)
			broken := -before
			for _, p := range ways(tr.servers) {
				p.Heal()
				broken += p.Broken()
			}
			tr.met(open, "no connection went that way")
			if breaks {
				tr.met(broken, "no connection was cut, reset or kept from anything")
			}
		},
	}
}
