package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// usage is what the machine and this run have used of its processors until a moment, in seconds.
type usage struct {
	at            time.Time
	machine, ours float64
}

// usageNow reads it; the error is that of a machine that does not tell.
func usageNow() (usage, error) {
	u := usage{at: time.Now()}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	var name string
	var user, nice, system, idle, wait, irq, soft, steal float64
	if _, err := fmt.Sscan(string(stat), &name, &user, &nice, &system, &idle, &wait, &irq, &soft, &steal); err != nil {
		return u, fmt.Errorf("/proc/stat: %w", err)
	}
	// What interrupts take is on account of all.
	u.machine = (user + nice + system + steal) / ticksASecond
	u.ours, err = familyCPU(os.Getpid())
	return u, err
}

// familyCPU is what a process, those it has started, and those it has waited for have used.
func familyCPU(root int) (float64, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	type member struct {
		parent int
		cpu    float64
	}
	all := make(map[int]member)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		const parent, user, waitedSystem = 1, 11, 14
		if len(fields) <= waitedSystem {
			continue
		}
		m := member{}
		if m.parent, err = strconv.Atoi(fields[parent]); err != nil {
			continue
		}
		for _, field := range fields[user : waitedSystem+1] {
			ticks, _ := strconv.ParseFloat(field, 64) // the kernel writes numbers
			m.cpu += ticks / ticksASecond
		}
		all[pid] = m
	}
	sum := 0.0
	for pid, m := range all {
		for at, depth := pid, 0; at > 1 && depth < 64; at, depth = all[at].parent, depth+1 {
			if at == root {
				sum += m.cpu
				break
			}
		}
	}
	return sum, nil
}

// others is which part of the machine others have used since then, from 0 to 1.
func (u usage) others(now usage) float64 {
	whole := now.at.Sub(u.at).Seconds() * float64(runtime.NumCPU())
	return max(0, (now.machine-u.machine)-(now.ours-u.ours)) / max(whole, 0.001)
}

func TestOthersAreToldFromOurselves(t *testing.T) {
	before, err := usageNow()
	if err != nil {
		t.Skip("needs Linux: ", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		now, err := usageNow()
		if err != nil {
			t.Fatal(err)
		}
		// The kernel counts in hundredths of a second.
		if now.ours-before.ours > 0.2 {
			if share := before.others(now); share < 0 || share > 1.5 {
				t.Errorf("others have used %.2f of the machine", share)
			}
			return
		}
		if now.at.After(deadline) {
			t.Fatalf("ten seconds of work are %v s of CPU of ours", now.ours-before.ours)
		}
	}
}
