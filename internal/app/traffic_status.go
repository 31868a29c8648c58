package app

import (
	"bridge/internal/httpapi"
	"bridge/internal/shard"
)

func deadLettersStatus(counts []shard.DeadLetterCount) httpapi.DeadLettersStatus {
	status := httpapi.DeadLettersStatus{Reasons: make([]httpapi.DeadLetterCount, 0, len(counts))}
	for _, c := range counts {
		status.Count += c.Count
		status.Reasons = append(status.Reasons, httpapi.DeadLetterCount(c))
	}
	return status
}

// backlogStatus returns nil while a shard keeps up.
func backlogStatus(s *shard.Status, t *shard.Traffic) *httpapi.BacklogStatus {
	if !s.Backlog {
		return nil
	}
	b := &httpapi.BacklogStatus{IDs: s.Highest - s.Position, IDsPerSecond: t.IDsPerSecond}
	if from := min(t.Drained, s.Position); s.Highest > from {
		b.Percent = 100 * float64(s.Position-from) / float64(s.Highest-from)
	}
	if b.IDsPerSecond > 0 {
		left := float64(b.IDs) / b.IDsPerSecond
		b.SecondsLeft = &left
	}
	return b
}

// reason returns why a shard is not running, empty while it is.
func (s *snapshot) reason() string {
	switch s.state() {
	case shard.Running:
		return ""
	case httpapi.Degraded:
		return s.reconcile.Guard
	case shard.Starting:
		if s.LastError == "" {
			return "the table was not read yet: bridge reads from the bus what its checkpoint lacks, or records the table as it is"
		}
	}
	return s.LastError
}
