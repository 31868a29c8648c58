package shard

import (
	"fmt"
	"maps"
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
	// counted says when rows were counted last, of the last minute and perhaps before.
	counted map[rowOfShard]time.Time
	// full says that the limit was exceeded.
	full bool
}

type rowOfShard struct {
	shard string
	row   uint64
}

// limitSpan is the time in which rows are counted together.
const limitSpan = time.Minute

// NewDeadLetterLimit returns a limit of most rows a minute; 0 is no limit.
func NewDeadLetterLimit(stream string, most int) *DeadLetterLimit {
	return &DeadLetterLimit{stream: stream, most: most, counted: make(map[rowOfShard]time.Time)}
}

// count counts the row of m at a moment, and returns an error when it is one too many. A row that
// was counted within the last minute is a retry and not counted again. A nil limit has no bound.
func (l *DeadLetterLimit) count(m *sink.Message, reason string, now time.Time) error {
	if l == nil || l.most == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	row, old := rowOfShard{m.Shard, m.RowID}, func(at time.Time) bool { return now.Sub(at) >= limitSpan }
	if at, again := l.counted[row]; again && !old(at) {
		return nil
	}
	// Invariant 7: at most as many rows as the limit says.
	if len(l.counted) >= l.most {
		maps.DeleteFunc(l.counted, func(_ rowOfShard, at time.Time) bool { return old(at) })
	}
	if l.full = l.full || len(l.counted) >= l.most; l.full {
		return &deadLetterLimitError{stream: l.stream, most: l.most, refused: sink.RejectedError{Message: *m, Reason: reason}}
	}
	l.counted[row] = now
	return nil
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
