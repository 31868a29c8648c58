package shard

import (
	"maps"
	"time"
)

// Left is what a shard leaves to the one of the same table in the next app of a process, where the
// configuration is the same: what it has counted and, if it has stopped, all that its status says.
// The zero value is that of a shard without a former one.
type Left struct {
	traffic traffic
	// stop is why it has stopped, nil if it has not; the others are of that.
	stop   error
	status Status
	since  time.Time
	lag    lag
}

// Leave returns what a shard leaves that does not run any more. Its status may still be read.
func (s *Shard) Leave() Left {
	t := &s.status
	t.mu.Lock()
	defer t.mu.Unlock()
	l := Left{traffic: t.traffic}
	// No memory is shared: the lock of another tracker guards it.
	l.traffic.reasons = maps.Clone(t.traffic.reasons)
	if t.traffic.recent != nil {
		recent := *t.traffic.recent
		l.traffic.recent = &recent
	}
	if t.stopped {
		l.stop, l.since, l.lag = t.err, t.since, t.lag
		l.status, _ = t.at(time.Now())
	}
	return l
}

// goOn has the shard count on, and stay stopped.
func (s *Shard) goOn(l *Left) {
	t := &s.status
	t.traffic = l.traffic
	if l.stop != nil {
		t.status, t.err, t.stopped, t.since, t.lag = l.status, l.stop, true, l.since, l.lag
	}
}
