package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bridge/tests/testenv"
)

// ticksASecond is the unit of the times in /proc: Linux shows hundredths everywhere.
const ticksASecond = 100

// cpuOf returns what a process has used so far, in seconds.
func cpuOf(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in brackets may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, errors.New("no times of the process")
	}
	var sum float64
	for _, field := range []string{fields[user], fields[system]} {
		var ticks float64
		if _, err := fmt.Sscan(field, &ticks); err != nil {
			return 0, err
		}
		sum += ticks
	}
	return sum / ticksASecond, nil
}

// process is one running program.
type process struct {
	t    testing.TB
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	// began is when it was started.
	began  time.Time
	memory *watch
}

// startProcess starts a program whose output goes to a log. It ends with end, or with the test.
func startProcess(t testing.TB, name string, command *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: name, log: filepath.Join(t.TempDir(), "log"), cmd: command, done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	command.Stdout, command.Stderr = out, out
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	p.began = time.Now()
	go func() {
		// Pdeathsig follows the thread that starts the process: this one stays until the process
		// ends.
		runtime.LockOSThread()
		defer close(p.done)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // what matters is in the log
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	p.memory = watchMemory(command.Process.Pid)
	t.Cleanup(func() {
		p.end()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", name, p.tail(40))
		}
	})
	return p
}

// end kills the process.
func (p *process) end() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
	p.memory.end()
}

// term ends the process in good order.
func (p *process) term() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.t.Fatalf("%s has not ended a minute after SIGTERM", p.name)
	}
}

func (p *process) tail(lines int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(string(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// alive fails the test when the process has ended.
func (p *process) alive() {
	p.t.Helper()
	select {
	case <-p.done:
		p.t.Fatalf("%s has ended: %s", p.name, p.cmd.ProcessState)
	default:
	}
}

// spent returns what the process has used so far, in CPU-seconds.
func (p *process) spent() float64 {
	p.t.Helper()
	cpu, err := cpuOf(p.cmd.Process.Pid)
	if err != nil {
		p.t.Fatal(err)
	}
	return cpu
}

// watch keeps the highest memory of a process.
type watch struct {
	mu      sync.Mutex
	highest int64
	end     func()
}

// watchMemory looks at the memory of a process every 50 ms until end is called.
func watchMemory(pid int) *watch {
	w := new(watch)
	quit, done := make(chan struct{}), make(chan struct{})
	w.end = sync.OnceFunc(func() { close(quit); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			// After its end there is nothing to see.
			if rss, err := testenv.RSSAnon(pid); err == nil {
				w.mu.Lock()
				w.highest = max(w.highest, rss)
				w.mu.Unlock()
			}
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return w
}

// peak returns the highest memory so far, in MiB.
func (w *watch) peak() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return float64(w.highest) / (1 << 20)
}

func TestOwnTimesAndMemoryCanBeRead(t *testing.T) {
	before, err := cpuOf(os.Getpid())
	if err != nil {
		t.Skip("needs Linux: ", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		after, err := cpuOf(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after > before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("ten seconds of work are no CPU time")
		}
	}
	// A test binary has some MiB.
	if rss, err := testenv.RSSAnon(os.Getpid()); err != nil || rss < 1<<20 {
		t.Errorf("RssAnon of this process: %d, %v", rss, err)
	}
}
