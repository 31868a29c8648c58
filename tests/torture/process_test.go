package torture

import (
	"syscall"
	"time"
)

// processFaults are done to the process of bridge itself.
var processFaults = []fault{
	{
		name: "bridge-killed", family: "bridge", what: "SIGKILL at random moments, again and again", repeats: true,
		inject: func(tr *trial) {
			for range 5 {
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
			for range 3 {
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
			pid := tr.Cmd.Process.Pid
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			tr.outage(30 * time.Second)
			_ = syscall.Kill(pid, syscall.SIGCONT)
		},
	},
}
