package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// process is one server process that can be killed and started again with the same command line.
type process struct {
	name string
	args []string
	log  string
	// ready returns nil once the server answers.
	ready func(ctx context.Context) error
	// wait bounds the time until ready.
	wait time.Duration
	// data is the folder with all that outlives the process.
	data string

	cmd  *exec.Cmd
	done chan struct{}
}

// start runs the process and blocks until it is ready.
func (p *process) start() error {
	out, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	// The server dies with the test binary, even when that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	done := make(chan struct{})
	started := make(chan error)
	go func() {
		// Pdeathsig follows the thread that starts the process: this one stays until the process ends.
		runtime.LockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			// The exit status of a killed server says nothing.
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.done = cmd, done
	return p.untilReady()
}

func (p *process) untilReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), p.wait)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while starting: %w\n%s", p.name, err, p.tail())
		case <-ctx.Done():
			p.kill()
			return fmt.Errorf("%s not ready after %s: %w\n%s", p.name, p.wait, err, p.tail())
		case <-tick.C:
		}
	}
}

// signal sends sig to the process, if it runs.
func (p *process) signal(sig syscall.Signal) {
	if p.running() {
		_ = syscall.Kill(p.cmd.Process.Pid, sig)
	}
}

// pause stops the process (SIGSTOP) and returns when each of its threads stands still, after 10 s at the latest: the kernel leaves it to
// one of the threads to stop the others, and until that one has its turn on a busy machine the process goes on answering.
func (p *process) pause() {
	p.signal(syscall.SIGSTOP)
	for deadline := time.Now().Add(10 * time.Second); p.running() && !p.stopped() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// stopped reports whether each thread of the process is stopped by a signal, as proc_pid_stat(5) tells it.
func (p *process) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		// The state is the word after the name, which may itself hold parentheses.
		if state := stat[bytes.LastIndexByte(stat, ')')+1:]; err != nil || !bytes.HasPrefix(state, []byte(" T ")) {
			return false
		}
	}
	return true
}

func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the process at once (SIGKILL) and waits for its end.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop ends the process in good order (SIGTERM), also one that stands still, and kills it when it takes longer than 20 s.
func (p *process) stop() {
	if p.cmd == nil {
		return
	}
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		p.kill()
	}
}

// tail returns the end of the process's log.
func (p *process) tail() []byte {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(b, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-30):], []byte("\n"))
}
