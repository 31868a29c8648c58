package shard

import "time"

// loop names one of the loops of a shard. Each is watched by itself: one that makes progress does
// not hide another that hangs.
type loop int

// The loops. Before a shard has an owner, and while it is stopped, the owner's is the shard's own.
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

// stillest returns the loop that has not turned for the longest time, and when it last did; now
// when no loop has anything to do. The caller holds mu.
func (t *tracker) stillest(now time.Time) (l loop, turned time.Time) {
	turned = now
	for i, at := range t.turns {
		if !at.IsZero() && at.Before(turned) {
			l, turned = loop(i), at
		}
	}
	return l, turned
}
