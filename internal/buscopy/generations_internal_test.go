package buscopy

import (
	"testing"
	"time"
)

// TestAMachineThatWasSuspended: its process is heard of no more, though its own clock stood still.
func TestAMachineThatWasSuspended(t *testing.T) {
	now := time.Now()
	for passed, want := range map[time.Duration]bool{0: true, silence: false, -time.Hour: true} {
		g := &Generations{joined: 1, signed: now, signedAt: now.Round(0).Add(-passed)}
		if got := g.isHeard(); got != want {
			t.Errorf("by the time of day %s have passed: it is heard: %t", passed, got)
		}
	}
}
