package shard

import (
	"testing"
	"time"
)

// TestLag goes through all that a lag is told. Times are seconds since a beginning.
func TestLag(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	n := new(nomination)
	const unknown = -1
	for _, c := range []struct {
		name      string
		happens   func(l *lag)
		now, want int
	}{
		{"is unknown before the first look", func(*lag) {}, 10, unknown},
		{"is 0 where a look found nothing", func(l *lag) { l.polled(at(5)) }, 10, 0},
		{"is unknown once that look is old", func(l *lag) { l.polled(at(5)) }, 26, unknown},
		{"is known before the first whole look where something waits", func(l *lag) { l.leave(findTail, at(3)) }, 10, 7},
		{"counts what the tail left", func(l *lag) { l.polled(at(5)); l.leave(findTail, at(3)) }, 10, 7},
		{"goes on to count it when the look is old", func(l *lag) { l.polled(at(5)); l.leave(findTail, at(3)) }, 60, 57},
		{"is 0 once that is gone", func(l *lag) { l.leave(findTail, at(3)); l.leave(findTail, time.Time{}); l.polled(at(9)) }, 10, 0},
		{"counts what the second cursor left", func(l *lag) { l.polled(at(5)); l.leave(findChanges, at(2)) }, 10, 8},
		{"counts the oldest of all", func(l *lag) { l.leave(findTail, at(3)); l.leave(findChanges, at(2)); l.hand(at(4)); l.name(n, at(5)) }, 10, 8},
		{"counts a batch that is handed out", func(l *lag) { l.polled(at(5)); l.hand(at(4)) }, 10, 6},
		{"counts the oldest of several, whichever that is", func(l *lag) { l.polled(at(5)); l.hand(at(4)); l.hand(at(1)); l.hand(time.Time{}) }, 10, 9},
		{"does not count a batch without messages", func(l *lag) { l.polled(at(5)); l.hand(time.Time{}) }, 10, 0},
		{"counts those behind an acknowledged one", func(l *lag) { l.polled(at(5)); l.hand(at(1)); l.hand(at(4)); l.acknowledge() }, 10, 6},
		{"counts those before one that was taken back", func(l *lag) { l.polled(at(5)); l.hand(at(4)); l.hand(at(1)); l.withdraw() }, 10, 6},
		{"counts a nomination", func(l *lag) { l.polled(at(5)); l.name(n, at(4)) }, 10, 6},
		{"does not count one that is done", func(l *lag) { l.polled(at(5)); l.name(n, at(4)); l.unname(n); l.unname(n) }, 10, 0},
		{"is never negative", func(l *lag) { l.polled(at(5)); l.hand(at(40)) }, 10, 0},
		{"is unknown while the source cannot be read", func(l *lag) { l.polled(at(5)); l.fail() }, 10, unknown},
		{"is unknown then though something is known to wait", func(l *lag) { l.leave(findTail, at(3)); l.hand(at(2)); l.fail() }, 10, unknown},
		{"is known again with the answer", func(l *lag) { l.leave(findTail, at(3)); l.fail(); l.answer() }, 10, 7},
		{"grows where a shard stopped with rows that wait", func(l *lag) { l.polled(at(5)); l.hand(at(3)); l.leave(findTail, at(4)); l.stop(false) }, 1000, 997},
		{"is unknown where it stopped with none", func(l *lag) { l.polled(at(5)); l.stop(false) }, 6, unknown},
		{"is unknown where the table is gone", func(l *lag) { l.hand(at(3)); l.stop(true) }, 10, unknown},
		{"is that of before the stop until all was looked at again", func(l *lag) { l.hand(at(3)); l.stop(false); l.answer(); l.leave(findTail, at(8)) }, 10, 7},
		{"is that of the new look then", func(l *lag) { l.hand(at(3)); l.stop(false); l.answer(); l.leave(findTail, at(8)); l.polled(at(9)) }, 10, 2},
		{"is unknown between a stop and the next whole look", func(l *lag) { l.polled(at(5)); l.stop(false); l.answer() }, 6, unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := lag{fresh: 20 * time.Second}
			c.happens(&l)
			age, known := l.at(at(c.now))
			if got := int(age.Seconds()); known != (c.want != unknown) || known && got != c.want {
				t.Errorf("%s, known %v, want %d s", age, known, c.want)
			}
		})
	}
}

func TestHeights(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	t.Run("tell when an id as high was first seen", func(t *testing.T) {
		var h heights
		h.see(100, at(1))
		h.see(100, at(2))
		h.see(90, at(3))
		h.see(200, at(4))
		for id, want := range map[uint64]time.Time{1: at(1), 100: at(1), 101: at(4), 200: at(4), 201: {}} {
			if got := h.since(id); !got.Equal(want) {
				t.Errorf("%d since %s, want %s", id, got, want)
			}
		}
		h.pass(100)
		if len(h.list) != 1 || !h.since(150).Equal(at(4)) {
			t.Errorf("%v behind the position", h.list)
		}
	})
	t.Run("are bounded, and make ids older by a thirtieth at most", func(t *testing.T) {
		var h heights
		for i := range 10_000 {
			h.see(uint64(i+1), at(i))
			if len(h.list) > maxHeights || len(h.list) < min(i, maxHeights/2) {
				t.Fatalf("%d heights", len(h.list))
			}
			since := h.since(1)
			if !since.Equal(at(0)) {
				t.Fatalf("the lowest id is %s too young", since.Sub(at(0)))
			}
		}
		for i := range 10_000 {
			got, whole := int(h.since(uint64(i+1)).Sub(begin).Seconds()), 10_000
			if got > i || i-got > whole/30 {
				t.Fatalf("id %d, first seen at %d, counts from %d", i+1, i, got)
			}
		}
	})
}
