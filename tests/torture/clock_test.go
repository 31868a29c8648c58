package torture

import (
	"time"

	"bridge/tests/faulty/failpoint"
	"bridge/tests/world"
)

// clockFaults set the clocks of bridge's host and of the database wrong.
var clockFaults = []fault{
	hostClock("clock-ahead", "the host's clock is 1 h ahead from the start on", "1h"),
	hostClock("clock-behind", "the host's clock is 1 h behind from the start on", "-1h"),
	hostClock("clock-jumps-ahead", "the host's clock jumps ahead by 1 h while bridge runs", "1h@5s"),
	hostClock("clock-jumps-behind", "the host's clock jumps back by 1 h while bridge runs", "-1h@5s"),
	{
		name: "database-clock-back", family: "disk and clock", what: "the database's clock steps back by 5 s, and forth again, twice",
		prepare: func(tr *trial) { tr.withFailpoints() },
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
			tr.Daemon.Path = world.Program{WrongClock: true}.Build(tr.T)
			tr.Env[world.ClockVariable] = wrong
		},
		inject: func(tr *trial) {
			tr.outage(30 * time.Second)
			tr.flows()
			tr.terminate()
			read := tr.Logged()
			if by := time.Until(read[len(read)-1]).Abs(); by < 50*time.Minute {
				tr.score.find("the program's clock was wrong by no more than %s", by)
			}
			delete(tr.Env, world.ClockVariable)
			tr.Start()
		},
	}
}
