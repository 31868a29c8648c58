package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/tests/must"
)

// startWithin bounds the start of a server, answerWithin what it is asked for. A machine that is
// busy with ten of them needs a minute for one start.
const (
	startWithin  = 3 * time.Minute
	answerWithin = 2 * time.Minute
)

// Process is a server process of the test's own.
type Process struct {
	name string
	args []string
	log  string
	// ready returns nil once the server answers.
	ready func(ctx context.Context) error
	// more returns further arguments of one start; nil has none.
	more func() ([]string, error)
	// data is the folder with all that outlives the process.
	data string

	*Child
}

// Child is a command that dies with the test binary, even when that is killed. nil is one that was
// not started.
type Child struct {
	Cmd *exec.Cmd
	// Done is closed when it has ended.
	Done <-chan struct{}
}

// Spawn starts a command.
func Spawn(cmd *exec.Cmd) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		// Pdeathsig follows the thread that starts the process: this one stays until the process
		// ends.
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit status is in ProcessState
		}
	}()
	return &Child{cmd, ended}, <-started
}

// Ended reports whether the command does not run.
func (c *Child) Ended() bool {
	if c == nil {
		return true
	}
	select {
	case <-c.Done:
		return true
	default:
		return false
	}
}

// Kill ends the command at once (SIGKILL), as a crash does, and waits for its end. Its data stays.
func (c *Child) Kill() {
	if c != nil {
		_ = c.Cmd.Process.Kill() // it may have ended
		<-c.Done
	}
}

// tryPorts starts a server in a new folder, with another free port where another process takes that
// first. stop ends the server and removes its folder.
func tryPorts[S any](name string, make func(dir string) (S, *Process, error)) (s S, stop func(), err error) {
	// Not t.TempDir: a shared server outlives the test that starts it, and the path of a socket has
	// room for about 100 bytes.
	dir, err := os.MkdirTemp("", "bridge-"+name+"-")
	if err != nil {
		return s, nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	for range 3 {
		var p *Process
		if s, p, err = make(dir); err != nil {
			break
		}
		if err = p.start(); err == nil {
			return s, func() { p.Kill(); remove() }, nil
		}
		p.Kill()
	}
	remove()
	return s, nil, err
}

func (p *Process) start() error {
	out, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	args := slices.Clone(p.args[1:])
	if p.more != nil {
		more, err := p.more()
		if err != nil {
			return err
		}
		args = append(args, more...)
	}
	cmd := exec.Command(p.args[0], args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	child, err := Spawn(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.Child = child
	return p.untilReady()
}

func (p *Process) untilReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	err := poll(ctx, func() error {
		err := p.ready(ctx)
		if err != nil && p.Ended() {
			cancel()
		}
		return err
	})
	if err != nil {
		p.Kill()
		return fmt.Errorf("%s is not ready: %w\n%s", p.name, err, p.tail())
	}
	return nil
}

// poll checks again and again until that succeeds or ctx ends.
func poll(ctx context.Context, check func() error) error {
	for {
		err := check()
		if err == nil || backoff.Pause(ctx, 20*time.Millisecond) != nil {
			return err
		}
	}
}

func (p *Process) Pid() int { return p.Cmd.Process.Pid }

func (p *Process) signal(sig syscall.Signal) {
	if !p.Ended() {
		_ = syscall.Kill(p.Pid(), sig)
	}
}

// Pause stops the process (SIGSTOP), as a host without CPU time does: connections stay open,
// nothing answers. It returns when each of the threads is stopped, which takes a while on a busy
// machine, or after a minute.
func (p *Process) Pause() {
	p.signal(syscall.SIGSTOP)
	for deadline := time.Now().Add(time.Minute); !p.Ended() && !Stopped(p.Pid()) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// Stopped reports whether each thread of a process is stopped by a signal, as proc_pid_stat(5)
// tells it.
func Stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
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

// Stop ends the process in good order (SIGTERM), also a paused one, and kills it after a minute.
func (p *Process) Stop() {
	if p.Ended() {
		return
	}
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
	select {
	case <-p.Done:
	case <-time.After(time.Minute):
		p.Kill()
	}
}

// Resume ends Pause.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

// Start starts a killed or stopped process and blocks until it answers.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	must.OK(t, p.start())
}

// StartWith is Start, with further arguments from then on.
func (p *Process) StartWith(t testing.TB, args ...string) {
	t.Helper()
	p.args = append(p.args, args...)
	p.Start(t)
}

// Restart kills the process and starts it.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.Kill()
	p.Start(t)
}

func (p *Process) tail() []byte {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(b, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-30):], []byte("\n"))
}

// Heal has a paused, killed or stopped process answer again. One that does not answer 15 s after it
// was resumed is killed first.
func (p *Process) Heal(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGCONT)
	if !p.Ended() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if poll(ctx, func() error { return p.ready(ctx) }) == nil {
			return
		}
		p.Kill()
	}
	p.Start(t)
}

// Snapshot stops the process in good order, copies its data, starts it, and returns the folder of
// the copy, which is removed when the test ends.
func (p *Process) Snapshot(t testing.TB) string {
	t.Helper()
	p.Stop()
	copied := filepath.Join(t.TempDir(), "snapshot")
	if err := os.CopyFS(copied, os.DirFS(p.data)); err != nil {
		t.Fatalf("copy the data of %s: %v", p.name, err)
	}
	p.Start(t)
	return copied
}

// Restore kills the process, puts a copy made by Snapshot in place of its data and starts it.
func (p *Process) Restore(t testing.TB, snapshot string) {
	t.Helper()
	p.Kill()
	must.OK(t, os.RemoveAll(p.data))
	if err := os.CopyFS(p.data, os.DirFS(snapshot)); err != nil {
		t.Fatalf("put back the data of %s: %v", p.name, err)
	}
	p.Start(t)
}

// freePorts are those that this process was given by FreePort, or found taken.
var freePorts sync.Map

// FreePort returns a loopback port that nobody listens on at the moment, another one at each call,
// in other test processes, too, while this one runs. A server may leave it and come back:
// the kernel gives it to nobody else, since it is below those of connections.
func FreePort(t testing.TB) int {
	t.Helper()
	locks := must.Get(portLocks())(t)
	for range 10_000 {
		// Above what other servers are likely to use, below the ports that Linux hands out.
		port := 12_000 + rand.IntN(20_000)
		if _, given := freePorts.LoadOrStore(port, true); given {
			continue
		}
		lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: int64(port), Len: 1}
		if syscall.FcntlFlock(locks.Fd(), syscall.F_SETLK, &lock) != nil {
			continue
		}
		if l, err := net.Listen("tcp", address(port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// portLocks is a file of which a test process locks one byte for each port that it has, until it
// ends.
var portLocks = sync.OnceValues(func() (*os.File, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("bridge-test-ports-%d", os.Getuid()))
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
})

// RSSAnon returns the anonymous memory of a process in bytes, as Linux tells it.
func RSSAnon(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			var kb int64
			_, err := fmt.Sscanf(rest, "%d kB", &kb)
			return kb << 10, err
		}
	}
	return 0, errors.New("no RssAnon")
}
