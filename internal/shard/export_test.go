package shard

import (
	"time"

	"example.org/bridge/sink"
)

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
