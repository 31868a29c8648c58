package shard

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"example.org/bridge/sink"
)

func TestReasonsOfDeadLetters(t *testing.T) {
	var c traffic
	for n := range 5 {
		c.putAside(fmt.Sprintf("the record has %d bytes, more than %d", 1000*n+n, 99))
	}
	c.putAside("invalid record")
	for n := range 20 {
		c.putAside("reason " + string(rune('a'+n)))
	}
	c.putAside(strings.Repeat("ä", 1000))
	shown, _ := c.at(0, time.Now())
	got := shown.DeadLetters.Reasons
	if len(got) != mostReasons+1 || got[0] != (DeadLetterCount{otherReason, 15}) || got[1] != (DeadLetterCount{"the record has N bytes, more than N", 5}) {
		t.Errorf("%+v", got)
	}
}

// TestWhateverIsFreeFirst is taken by who waits for memory, and nothing is kept of the rest.
func TestWhateverIsFreeFirst(t *testing.T) {
	for name, freed := range map[string]int{"that of the stream": 0, "that of all": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLimits(16, 1, 1).Stream()
				all := []*semaphore.Weighted{l.own, l.common}
				for _, part := range all {
					part.TryAcquire(8)
				}
				got := make(chan hold, 1)
				go func() {
					held, _ := l.reserve(t.Context())
					got <- held
				}()
				synctest.Wait()
				all[freed].Release(8)
				synctest.Wait()
				if len(got) == 0 {
					t.Fatal("it waits on")
				}
				held := <-got
				all[1-freed].Release(8)
				synctest.Wait()
				if l.release(&held); held.from != all[freed] || !l.own.TryAcquire(8) || !l.common.TryAcquire(8) {
					t.Error("something is reserved still")
				}
			})
		})
	}
}

// TestWhatIsLeftSharesNoMemory: the status of the former shard may be read while the next one
// counts.
func TestWhatIsLeftSharesNoMemory(t *testing.T) {
	t.Parallel()
	now := time.Now()
	former, next := &Shard{}, &Shard{}
	former.status.traffic.publish(3, 3, now)
	former.status.traffic.putAside("too large")
	left := former.Leave()
	next.goOn(&left)
	next.status.traffic.publish(4, 7, now)
	next.status.traffic.putAside("too large")
	for _, c := range []struct {
		of    *Shard
		rows  uint64
		aside uint64
	}{{former, 3, 1}, {next, 7, 2}} {
		if shown, _ := c.of.status.traffic.at(7, now); shown.Published.Rows != c.rows || shown.DeadLetters.Count != c.aside {
			t.Errorf("%+v is shown, want %d rows and %d put aside", shown, c.rows, c.aside)
		}
	}
}

// TestRateOfLateRows: late rows pass while tails take all that there is, the sum stays within the
// rate, and what was not used is given back.
func TestRateOfLateRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 100
		r := NewRate(perSecond)
		late, tail := 0, 0
		for range 100 {
			tail += r.admit(2000, false)
			late += r.admit(2000, true)
			time.Sleep(100 * time.Millisecond)
		}
		if late < perSecond*9 || tail+late > perSecond*10+50 {
			t.Errorf("in 10 s %d late rows, and %d others", late, tail)
		}
		if n := r.admit(1, false); n != 0 {
			t.Error("a tail does not wait for the debt")
		}
		r.put(1000)
		if n := r.admit(1000, false); n != perSecond/4 {
			t.Errorf("%d rows pass after others were given back", n)
		}
		r.Set(0)
		if n := r.admit(5000, false); n != 5000 || r.wait() != 0 || r.page(7) != 7 {
			t.Errorf("%d rows pass without a limit", n)
		}
		r.Set(10)
		if n := r.admit(5000, false); n > 3 {
			t.Errorf("%d rows pass at once with a lower limit", n)
		}
	})
}

// Count counts a row with a key at a moment.
func (l *DeadLetterLimit) Count(row uint64, now time.Time, key string) error {
	return l.count(&sink.Message{Shard: "items", RowID: row, Key: []byte(key)}, "too large", now)
}

// Idle reports whether the shard owns no goroutine: it is kept until its next poll.
func (s *Shard) Idle() bool {
	p := s.scheduler.Load()
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.scheduled.kept
}
