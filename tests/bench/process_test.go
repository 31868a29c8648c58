package bench

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// bus is a real bus as the benchmark sees it. A target is a topic or a stream.
type bus struct {
	*world.Bus
	name, version string
	// servers are the addresses.
	servers string
	// partitions of every topic.
	partitions int32
}

func kafkaOn(server *testenv.KafkaServer, partitions int32) *bus {
	return &bus{world.KafkaBus(server), "kafka", server.Version, strings.Join(server.Brokers(), ","), partitions}
}

func natsOn(server *testenv.NATSServer) *bus {
	return &bus{world.NATSBus(server), "jetstream", server.Version, server.URL(), 0}
}

// open makes a target, which is removed when the test ends, and returns what to set as DESTINATION.
func (b *bus) open(t testing.TB, target string) (destination string) {
	t.Helper()
	if b.Kafka == nil {
		return b.Open(t, target)
	}
	b.Kafka.CreateTopic(t, target, b.partitions, nil)
	t.Cleanup(func() { b.Kafka.DeleteTopic(t, target) })
	return target
}

// revisionOf returns the revision in an event of a row, which all programs write as JSON; empty for
// another message, such as a claim. That of row n is the MD5 of its number.
func revisionOf(value []byte) string {
	_, rest, _ := bytes.Cut(value, []byte(`"revision":"`))
	revision, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(revision)
}

func revision(n int) string {
	sum := md5.Sum([]byte(fmt.Sprint(n)))
	return hex.EncodeToString(sum[:])
}

type receipt struct {
	revision string
	at       time.Time
	value    []byte
}

// follow calls each for every event from the beginning of the target until stop is called, or the
// test ends.
func (b *bus) follow(t testing.TB, target string, each func(receipt)) (stop func()) {
	t.Helper()
	return b.Receive(t, target, func(m world.Message) {
		if of := revisionOf(m.Value); of != "" {
			each(receipt{of, time.Now(), m.Value})
		}
	})
}

type process struct {
	pid  int
	done <-chan struct{}
	// began is when it was started.
	began  time.Time
	memory *watch
}

func startProcess(t testing.TB, name string, command *exec.Cmd) *process {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	out := must.Get(os.Create(log))(t)
	defer out.Close()
	command.Stdout, command.Stderr = out, out
	p := &process{began: time.Now()}
	child := must.Get(testenv.Spawn(command))(t)
	p.pid, p.done = command.Process.Pid, child.Done
	p.memory = watchMemory(t, p.pid)
	t.Cleanup(func() {
		child.Kill()
		p.memory.end()
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("the end of the log of %s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return p
}

func (p *process) alive(t testing.TB) {
	t.Helper()
	select {
	case <-p.done:
		t.Fatal("the program has ended")
	default:
	}
}

// rss is the memory that the process has now, in MiB.
func (p *process) rss(t testing.TB) float64 {
	t.Helper()
	rss := must.Get(testenv.RSSAnon(p.pid))(t)
	return float64(rss) / (1 << 20)
}

// cost is what the process has used for so many rows, in so many seconds.
func (p *process) cost(t testing.TB, seconds float64, rows int) figures {
	t.Helper()
	return figures{"s": seconds, "rows/s": float64(rows) / seconds, "cpu-s/Mrow": spent(t, p.pid) / float64(rows) * 1e6, "peak-MiB": p.memory.peak()}
}

type watch struct {
	mu      sync.Mutex
	highest int64
	end     func()
}

// watchMemory looks at the memory of a process every 50 ms until end is called.
func watchMemory(t testing.TB, pid int) *watch {
	w := new(watch)
	w.end = world.Every(t, 50*time.Millisecond, func() {
		// After its end there is nothing to see.
		if rss, err := testenv.RSSAnon(pid); err == nil {
			w.mu.Lock()
			w.highest = max(w.highest, rss)
			w.mu.Unlock()
		}
	})
	return w
}

func (w *watch) peak() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return float64(w.highest) / (1 << 20)
}

// spent is what a process has used of the processors so far, in seconds, without its children.
func spent(t testing.TB, pid int) float64 {
	t.Helper()
	own, _, _, err := times(pid)
	must.OK(t, err)
	return own
}

// times reads /proc/pid/stat: what a process and its ended children have used, in seconds, and its
// parent.
func times(pid int) (own, children float64, parent int, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, 0, err
	}
	// The name in brackets may hold anything; 11 fields behind it come four times, in hundredths.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks [4]float64
	for i := range ticks {
		if ticks[i], err = strconv.ParseFloat(fields[11+i], 64); err != nil {
			return 0, 0, 0, err
		}
	}
	parent, err = strconv.Atoi(fields[1])
	return (ticks[0] + ticks[1]) / 100, (ticks[2] + ticks[3]) / 100, parent, err
}

// usage is what the machine and this run have used of its processors until a moment, in seconds.
type usage struct {
	at            time.Time
	machine, ours float64
}

func usageNow(t testing.TB) usage {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Skip("needs Linux: ", err)
	}
	var name string
	var user, nice, system, idle, wait, irq, soft, steal float64
	_, err = fmt.Sscan(string(stat), &name, &user, &nice, &system, &idle, &wait, &irq, &soft, &steal)
	must.OK(t, err)
	// What interrupts take is on account of all.
	return usage{at: time.Now(), machine: (user + nice + system + steal) / 100, ours: familyCPU(os.Getpid())}
}

// familyCPU is what a process, those it has started, and those it has waited for have used.
func familyCPU(root int) (sum float64) {
	type member struct {
		parent int
		cpu    float64
	}
	all := make(map[int]member)
	entries, _ := os.ReadDir("/proc") // without it there is no Linux, as usageNow says
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if own, children, parent, err := times(pid); err == nil { // else it has ended
				all[pid] = member{parent, own + children}
			}
		}
	}
	for at, m := range all {
		for at > 1 && at != root {
			at = all[at].parent
		}
		if at == root {
			sum += m.cpu
		}
	}
	return sum
}

// others is which part of the machine others have used since then, from 0 to 1.
func (u usage) others(now usage) float64 {
	whole := now.at.Sub(u.at).Seconds() * float64(runtime.NumCPU())
	return max(0, (now.machine-u.machine)-(now.ours-u.ours)) / max(whole, 0.001)
}

type own struct {
	began   time.Time
	cpu     float64
	mallocs uint64
}

func ownNow() own {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // it cannot fail for this process
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return own{time.Now(), float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9, m.Mallocs}
}

// since returns what the part has cost for so many rows.
func (o own) since(rows int) figures {
	now := ownNow()
	seconds := now.began.Sub(o.began).Seconds()
	return figures{
		"s": seconds, "rows/s": float64(rows) / seconds, "cpu-s/Mrow": (now.cpu - o.cpu) / float64(rows) * 1e6,
		"allocs/row": float64(now.mallocs-o.mallocs) / float64(rows),
	}
}
