package shard

import (
	"time"

	"bridge/sink"
)

// Leave takes all shares that are free but n, until release is called.
func (l *StreamLimits) Leave(n int) (release func()) {
	var taken []hold
	for {
		held, ok := l.tryReserve()
		if !ok {
			break
		}
		taken = append(taken, held)
	}
	free := func(list []hold) {
		for i := range list {
			l.release(&list[i])
		}
	}
	free(taken[len(taken)-n:])
	return func() { free(taken[:len(taken)-n]) }
}

// Count counts a row at a moment.
func (l *DeadLetterLimit) Count(row uint64, now time.Time) error {
	return l.count(&sink.Message{Shard: "items", RowID: row}, "too large", now)
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
