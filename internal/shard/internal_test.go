package shard

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"example.org/bridge/internal/null"
	"example.org/bridge/sink"
	"example.org/bridge/source"
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

// TestHotTime outlasts a statement that waits for a lock.
func TestHotTime(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{0: time.Minute, 5 * time.Second: time.Minute, 10 * time.Minute: 12 * time.Minute} {
		g := &gaps{opts: new(Options), server: &server{traits: source.Traits{LockWait: wait}}}
		if got := g.options().HotFor; got != want {
			t.Errorf("hot for %s where a statement may wait %s, want %s", got, wait, want)
		}
	}
}

// TestTotalOfAStream: its metrics are those of the worst tables, or sums.
func TestTotalOfAStream(t *testing.T) {
	at, one, two := time.UnixMilli(1_700_000_000_500), 1.0, 2.0
	all := []Status{
		{State: Running, Position: 5, OpenGaps: 1, LagSeconds: &two, LastPoll: null.At(at), Gaps: Gaps{Hot: 1, Cold: 10, InFlight: 1, Unpolled: 4, Bytes: 100, OldestSeconds: 60}},
		{State: Waiting, Position: 6, OpenGaps: 2, LastPoll: null.At(at.Add(-time.Minute)), Gaps: Gaps{Hot: 2, Cold: 20, InFlight: 2, Unpolled: 5, Bytes: 300, OldestSeconds: 1}},
		{State: Running, Position: 7, LagSeconds: &one, LastPoll: null.At(at)},
		{State: Paused, LastPoll: null.At(at.Add(-time.Hour))},
		{State: Stopped, Position: 8, LastPoll: null.At(at.Add(-time.Hour))},
	}
	for want, of := range map[string][]Status{
		"lag 2 poll 1699999940.5 position 26 gaps 3 3 30 9 3 age 60 memory 300 map[paused:1 running:2 stopped:1 waiting:1]": all,
		"lag NaN poll NaN position 0 gaps 0 0 0 0 0 age 0 memory 0 map[]":                                                   nil,
		"lag NaN poll NaN position 8 gaps 0 0 0 0 0 age 0 memory 0 map[stopped:1]":                                          all[4:],
		// One that was not read yet.
		"lag 1 poll 0.0 position 7 gaps 0 0 0 0 0 age 0 memory 0 map[running:1 starting:1]": {all[2], {State: Starting}},
	} {
		sum := newTotal()
		for i := range of {
			sum.add(&of[i])
		}
		if got := fmt.Sprintf("lag %v poll %.1f position %v gaps %v %v %v %v %v age %v memory %v %v", sum.lag, sum.poll, sum.position,
			sum.gaps, sum.hot, sum.cold, sum.unpolled, sum.flight, sum.gapAge, sum.memory, sum.states); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
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

// TestRateBehindAClockThatWasSetBack: rows of before the present span do not count.
func TestRateBehindAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	var of traffic
	now := time.Now().Round(0)
	of.publish(1000, 1000, now)
	now = now.Add(-time.Minute)
	for range 30 {
		now = now.Add(time.Second)
		of.publish(1, 1000, now)
	}
	if shown, _ := of.at(1000, now); shown.Published.RowsPerSecond > 2 {
		t.Errorf("%v rows a second, want 1", shown.Published.RowsPerSecond)
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
