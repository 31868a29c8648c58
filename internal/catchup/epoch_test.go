package catchup_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/internal/catchup"
)

func TestTheNumberOfAnEpoch(t *testing.T) {
	now := time.UnixMilli(1_760_000_000_123)
	for _, c := range []struct {
		above uint64
		now   time.Time
		want  uint64
	}{
		{0, now, 1_760_000_000_123},
		{1_760_000_000_122, now, 1_760_000_000_123},
		{1_760_000_000_123, now, 1_760_000_000_124},
		{1_900_000_000_000, now, 1_900_000_000_001},
		{0, time.Time{}, 1},
		{7, time.Unix(-1, 0), 8},
	} {
		if got := catchup.NewEpoch(c.above, c.now).Number(); got != c.want {
			t.Errorf("above %d at %v: %d, want %d", c.above, c.now, got, c.want)
		}
	}
}

func TestSeqsOfAnEpochAreHandedOutOnce(t *testing.T) {
	e := catchup.NewEpoch(0, time.Now())
	if first, second := e.Next(3), e.Next(1); first != 1 || second != 4 {
		t.Fatalf("the first batches begin at %d and %d, want 1 and 4", first, second)
	}
	const goroutines, batches = 8, 1000
	firsts := make([][]uint64, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range batches {
				firsts[g] = append(firsts[g], e.Next(g+1))
			}
		})
	}
	wg.Wait()
	var all []uint64
	for g := range firsts {
		for _, first := range firsts[g] {
			for i := range uint64(g + 1) {
				all = append(all, first+i)
			}
		}
	}
	slices.Sort(all)
	for i, seq := range all {
		if seq != uint64(i)+5 {
			t.Fatalf("seq %d is %d", i+5, seq)
		}
	}
}

func TestAHigherEpochSupersedes(t *testing.T) {
	e := catchup.NewEpoch(99, time.Time{})
	for _, met := range []uint64{0, 99, 100} {
		if err := e.Met(met); err != nil {
			t.Errorf("epoch 100 met %d: %v", met, err)
		}
	}
	err := e.Met(101)
	if !errors.Is(err, catchup.ErrSuperseded) || !strings.Contains(err.Error(), "101") || !strings.Contains(err.Error(), "100") {
		t.Errorf("epoch 100 met 101: %v", err)
	}
}
