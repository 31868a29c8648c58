package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/internal/testenv"
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

// spent returns what the daemon has used so far, in CPU-seconds.
func (d *daemon) spent() float64 {
	d.t.Helper()
	cpu, err := cpuOf(d.cmd.Process.Pid)
	if err != nil {
		d.t.Fatal(err)
	}
	return cpu
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
