package torture

import (
	"time"

	"bridge/tests/world"
)

// standbyTimeout returns BRIDGE_STANDBY_TIMEOUT of the trials. In the short form eight share the
// machine: processes are without a processor for seconds, and must not lose the work by that.
func standbyTimeout() time.Duration {
	if *tortureShort {
		return 8 * time.Second
	}
	return 3 * time.Second
}

// standbyFaults are done to the one that works of two processes of a standby group.
var standbyFaults = []fault{
	{
		name: "standby-killed", family: "standby", what: "of two processes the one that works gets SIGKILL, and the other one takes over, three times",
		repeats: true, prepare: withStandby,
		inject: func(tr *trial) {
			for range 3 {
				tr.cuts++
				tr.group.Killed()
				tr.group.Ready()
			}
		},
	},
	{
		name: "standby-paused", family: "standby", repeats: true, prepare: withStandby,
		what: "of two processes the one that works gets SIGSTOP until the other one has taken over, and goes on 10 s later, twice",
		inject: func(tr *trial) {
			for range 2 {
				tr.cuts++
				tr.group.Stopped(tr.within(10 * time.Second))
				tr.group.Ready()
			}
		},
	},
	{
		name: "standby-cut", family: "standby", repeats: true, prepare: withStandby,
		what: "the way to the bus of the one that works swallows all data, the other one takes over, and 10 s later the way heals, twice",
		inject: func(tr *trial) {
			for range 2 {
				tr.group.MoveTo(tr.group.Members[0])
				tr.cuts++
				cut := tr.group.Replace("half-open", func(*world.Member) { tr.servers.busProxy.HalfOpen() })
				tr.outage(10 * time.Second)
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
	proxied := tr.Env
	tr.Env = plain
	// Each process has an address and a checkpoint of its own.
	delete(proxied, "BRIDGE_HTTP_ADDR")
	delete(proxied, "BRIDGE_CHECKPOINT_URL")
	tr.group = world.NewGroup(tr.Publisher, standbyTimeout(), proxied, nil)
}
