package world

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// AwaitStop waits until the program stands still, as at a failpoint that stops it.
func (d *Daemon) AwaitStop() {
	d.T.Helper()
	Eventually(d.T, time.Minute, "the program stands still", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.Cmd.Process.Pid))
		// The state follows the name, which is in brackets.
		return err == nil && bytes.HasPrefix(text[bytes.LastIndexByte(text, ')')+1:], []byte(" T"))
	})
}

// goroutines ends a program that still runs, by SIGQUIT, and returns where its goroutines were.
func (d *Daemon) goroutines() string {
	if d.Cmd == nil || d.Cmd.Process == nil {
		return "it was not started"
	}
	before := len(d.Log.String())
	if err := d.Cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err.Error()
	}
	_ = d.Cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-d.Done:
	case <-time.After(10 * time.Second):
		return "it does not end by SIGQUIT"
	}
	return d.Log.String()[before:]
}

// Signal sends a signal to the program: SIGSTOP has it stand still, SIGCONT go on.
func (d *Daemon) Signal(s syscall.Signal) {
	d.T.Helper()
	check(d.T, d.Cmd.Process.Signal(s))
}
