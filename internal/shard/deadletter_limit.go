package shard

import (
	"fmt"
	"sync"
	"time"

	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

// DeadLetterLimit bounds how many rows of one stream become dead letters within a minute. Once it
// is exceeded, every further row is refused until the process ends. The shards of a stream share
// it; it is safe for concurrent use.
type DeadLetterLimit struct {
	stream string
	most   int

	mu sync.Mutex
	// rows are those that were counted within the last minute, in that order; there is their set.
	rows  []countedRow
	there map[rowOfShard]struct{}
	// full says that the limit was exceeded.
	full bool
}

type rowOfShard struct {
	shard string
	row   uint64
}

type countedRow struct {
	rowOfShard
	at time.Time
}

// limitSpan is the time in which rows are counted together.
const limitSpan = time.Minute

// NewDeadLetterLimit returns a limit of most rows a minute; 0 is no limit.
func NewDeadLetterLimit(stream string, most int) *DeadLetterLimit {
	return &DeadLetterLimit{stream: stream, most: most, there: make(map[rowOfShard]struct{})}
}

// count counts the row of m at a moment, and returns an error when it is one too many. A row that
// was counted within the last minute is a retry and not counted again. A nil limit has no bound.
func (l *DeadLetterLimit) count(m *sink.Message, reason string, now time.Time) error {
	if l == nil || l.most == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now.Add(-limitSpan))
	row := rowOfShard{m.Shard, m.RowID}
	if _, again := l.there[row]; again {
		return nil
	}
	if l.full = l.full || len(l.rows) >= l.most; l.full {
		return &deadLetterLimitError{stream: l.stream, most: l.most, refused: sink.RejectedError{Message: *m, Reason: reason}}
	}
	// Invariant 7: at most as many rows as the limit says.
	l.rows = append(l.rows, countedRow{row, now})
	l.there[row] = struct{}{}
	return nil
}

// forget drops the rows that were counted before a moment.
func (l *DeadLetterLimit) forget(before time.Time) {
	n := 0
	for ; n < len(l.rows) && !l.rows[n].at.After(before); n++ {
		delete(l.there, l.rows[n].rowOfShard)
	}
	l.rows = l.rows[n:]
}

// deadLetterLimitError says that a stream has more dead letters than it may.
type deadLetterLimitError struct {
	stream  string
	most    int
	refused sink.RejectedError
}

func (e *deadLetterLimitError) Error() string { return e.Named(option.Short) }

// Named returns the text with the setting as naming has it.
func (e *deadLetterLimitError) Named(naming option.Naming) string {
	m := &e.refused.Message
	return fmt.Sprintf("more than %d rows of stream %s within a minute would be dead letters, which %s forbids: %s refuses row %d of %s, too (event %s, %d bytes): %s: "+
		"see with bridge deadletter list what is refused, fix the rows or the bus, then restart bridge, which goes on with this row; a higher limit, or 0, puts more aside",
		e.most, e.stream, naming(option.DeadLetterLimit), m.Destination, m.RowID, m.Shard, m.ID, len(m.Value), e.refused.Reason)
}
