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

// heartbeat notes that a loop lives.
func (t *tracker) heartbeat(l loop) { t.update(func(*Status) { t.heartbeats[l] = time.Now() }) }

// idle notes that a loop waits for something to do, which may take any time, or has ended.
func (t *tracker) idle(l loop) { t.update(func(*Status) { t.heartbeats[l] = time.Time{} }) }

// stillest returns the loop whose last heartbeat is the longest ago, and when that was; now when
// all loops are idle. The caller holds mu.
func (t *tracker) stillest(now time.Time) (l loop, last time.Time) {
	last = now
	for i, at := range t.heartbeats {
		if !at.IsZero() && at.Before(last) {
			l, last = loop(i), at
		}
	}
	return l, last
}
