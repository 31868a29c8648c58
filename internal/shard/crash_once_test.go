package shard_test

import (
	"fmt"
	"testing"

	"bridge/internal/testall"
)

// TestAKillInExactlyOnce is TestAKillBetweenPublishAckAndCommit on a bus that takes batches as a
// whole and fences dead processes, as JetStream does with atomic batches on a claim: nothing is
// stored twice, with the whole store, an older copy and none.
func TestAKillInExactlyOnce(t *testing.T) {
	every := testall.Pick(8, 2)
	for number, c := range changes {
		t.Run("of "+c.name, func(t *testing.T) {
			t.Parallel()
			steps := c.steps(t)
			instantly(t, "and of nothing else", func(t *testing.T) {
				deaths := 0
				for step := range steps {
					if (crash{change: c, step: step, kept: keep(step % 3), twin: once}).killed(t) {
						deaths++
					}
				}
				// A look at the bus, a read, a publish and its commit.
				if deaths < 5 {
					t.Errorf("it was killed %d times", deaths)
				}
			})
			for i, m := range meanwhiles {
				for step := range steps {
					if turn := number + i + step; turn%every == 0 {
						one := crash{change: c, step: step, meanwhile: m, kept: keep(turn / every % 3), twin: once}
						instantly(t, fmt.Sprintf("at step %d, then %s", step, m.name), func(t *testing.T) { one.killed(t) })
						instantly(t, fmt.Sprintf("at step %d %s while it goes on", step, m.name), func(t *testing.T) { one.goesOn(t) })
					}
				}
			}
		})
	}
}
