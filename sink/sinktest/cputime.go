//go:build unix

package sinktest

import (
	"syscall"
	"testing"
	"time"
)

// CPUTime is what this process has used: on a busy machine it tells more than the clock.
func CPUTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
