package pipeline

import (
	"sync"
	"time"

	"bridge/event"
	"bridge/sink"
)

// batch is what one page became: messages in the order of their ids.
type batch struct {
	messages []sink.Message
	buf      []byte
	// last is the position that holds once all messages are acknowledged.
	last uint64
	// oldest is the host's time at which the first record had the age zero.
	oldest time.Time
	// readAt is set when a message carries the database's clock as its time: it must be saved before the publish.
	readAt time.Time
	// held are the bytes reserved for the batch.
	held int64
}

const (
	messageBytes = 256
	keepBuf      = 8 << 20
)

var batches = sync.Pool{New: func() any { return new(batch) }}

func newBatch() *batch { return batches.Get().(*batch) }

// size is the memory that the batch needs.
func (b *batch) size() int64 { return int64(cap(b.buf)) + int64(len(b.messages))*messageBytes }

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

// add encodes row as the batch's next message.
func (b *batch) add(s *Shard, row event.Row, now time.Time) error {
	buf, e, err := s.opts.Encoder.Append(b.buf, row)
	if err != nil {
		return err
	}
	b.buf = buf
	if e.FromClock {
		b.readAt = row.Read
	}
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
		Origin:      sink.FromTail,
		Time:        now,
	})
	b.last = row.ID
	return nil
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
