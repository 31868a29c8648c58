package pipeline

import (
	"time"

	"bridge/sink"
)

// Take counts a row at a moment.
func (l *LetterLimit) Take(row uint64, now time.Time) error {
	return l.take(&sink.Message{Shard: "items", RowID: row}, "too large", now)
}
