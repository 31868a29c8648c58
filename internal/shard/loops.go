package shard

import "time"

// loop is one of those that run side by side for a shard. Each is watched by itself: one that turns does not hide another that stands still.
type loop int

// The loops. The owner's is that of the shard itself before it has an owner, and while it is stopped.
const (
	owning loop = iota
	publishing
	loops
)

func (l loop) String() string { return [...]string{"owner", "publisher"}[l] }

// turn notes that a loop turns.
func (t *tracker) turn(l loop) { t.update(func(*Status) { t.turns[l] = time.Now() }) }

// rest notes that a loop waits for something to do, which may take any time, or has ended.
func (t *tracker) rest(l loop) { t.update(func(*Status) { t.turns[l] = time.Time{} }) }

// stillest returns the loop that has not turned for the longest time, and when it last did; now when all rest. The caller holds mu.
func (t *tracker) stillest(now time.Time) (l loop, turned time.Time) {
	turned = now
	for i, at := range t.turns {
		if !at.IsZero() && at.Before(turned) {
			l, turned = loop(i), at
		}
	}
	return l, turned
}
