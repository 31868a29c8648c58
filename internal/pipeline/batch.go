package pipeline

import (
	"sync"
	"time"

	"bridge/event"
	"bridge/sink"
	"bridge/source"
)

// batch is what one page became: messages in the order of their reads.
type batch struct {
	messages []sink.Message
	buf      []byte
	// last is the position that holds once all messages are acknowledged; ledger holds the parts of the gap ledger that
	// are saved with it, all or none, and gaps the lowest of them for people.
	last   uint64
	ledger []source.Chunk
	gaps   []source.Gap
	// made is when the batch was made, by the host's clock.
	made time.Time
	// oldest is the host's time at which the oldest record had the age zero.
	oldest time.Time
	// readAt is set when a message of the tail carries the database's clock as its time, readThrough is the last such row:
	// both must be saved before the publish.
	readAt      time.Time
	readThrough uint64
	// lateClock says that a late record has no time of its own: when its id was first missed must be saved before the publish.
	lateClock bool
	// held is what is reserved for the batch.
	held hold
}

const (
	messageBytes = 256
	keepBuf      = 4 << 20
)

var batches = sync.Pool{New: func() any { return new(batch) }}

func newBatch() *batch { return batches.Get().(*batch) }

// size is the memory that the batch needs.
func (b *batch) size() int64 { return int64(len(b.buf)) + int64(len(b.messages))*messageBytes }

// recycle gives the batch's memory back. Nothing may refer to its messages any more.
func (b *batch) recycle() {
	buf, messages := b.buf[:0], b.messages
	clear(messages)
	if cap(buf) > keepBuf {
		buf = nil
	}
	*b = batch{buf: buf, messages: messages[:0]}
	batches.Put(b)
}

// born notes the host's time at which a record had the age zero.
func (b *batch) born(at time.Time) {
	if b.oldest.IsZero() || at.Before(b.oldest) {
		b.oldest = at
	}
}

// add encodes row as the batch's next message and reports whether its time is row.Read.
func (b *batch) add(s *Shard, row event.Row, origin sink.Origin) (fromClock bool, err error) {
	buf, e, err := s.opts.Encoder.Append(b.buf, row)
	if err != nil {
		return false, err
	}
	b.buf = buf
	if e.BadValues > 0 {
		s.badValues(row.ID, e.BadValues)
	}
	b.messages = append(b.messages, sink.Message{
		Destination: s.opts.Route(&e),
		Key:         e.Key,
		Value:       e.Body,
		ID:          e.ID,
		Type:        e.Type,
		Version:     e.Version,
		Stream:      s.opts.Stream,
		Shard:       s.opts.Name,
		RowID:       row.ID,
		Origin:      origin,
		Time:        b.made,
	})
	return e.FromClock, nil
}

// badValues counts the values of a row that were published as null, and warns about the first of a shard.
func (s *Shard) badValues(id uint64, n int) {
	s.opts.Metrics.badValues.WithLabelValues(s.opts.Stream).Add(float64(n))
	if !s.warnedBad {
		s.warnedBad = true
		s.opts.Logger.Warn("values that an event cannot hold are published as null, further ones are only counted (bridge_bad_values_total); "+
			"ON_BAD_VALUE=stop would stop the stream instead", "id", id, "values", n)
	}
}
