package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
)

// errAbandoned is the cause of an attempt that nobody waits for any more.
var errAbandoned = errors.New("nobody waits for the batch")

// worker sends to one partition, one batch at a time. Runs that arrive while a batch is in flight
// share the next one. A goroutine drains it while there is something to send.
type worker struct {
	sink      *Sink
	topic     string
	partition int32
	tp        string

	mu sync.Mutex
	// queue are the open portions in order. A batch in flight holds messages of the first of them.
	queue    []*portion
	busy     bool
	inFlight *wireBatch

	// What follows belongs to the draining goroutine: that of the worker, or of all transactions.

	// limit bounds the units of a batch, after one was refused; see wireBatch.fill.
	limit int
	// reported says that a fault has been reported that has not ended.
	reported bool

	// What follows is unused within transactions.

	// id is nil before the first batch. After a broken thread it is that of a batch that may arrive
	// late.
	id     *identity
	broken bool
	// next is the offset behind the last batch, 0 when that is not known.
	next int64
}

// wireBatch is a batch on its way with the portions that it carries.
type wireBatch struct {
	parts   []part
	buffers *buffers
	wire    []byte
	// count counts the records, units what a batch is split into: a deleted event and the tombstone
	// behind it are one.
	count, units int
	// stamped is the identity that wire carries.
	stamped *identity
	// lent: an attempt ended without an answer, and the transport may still read wire.
	lent    bool
	abandon context.CancelCauseFunc
}

// part is how many messages of a portion a batch carries, from portion.next on.
type part struct {
	portion *portion
	count   int
}

func newWorker(s *Sink, topic string, partition int32) *worker {
	return &worker{sink: s, topic: topic, partition: partition, tp: tp(topic, partition), limit: math.MaxInt}
}

// enqueue adds a portion and sees to it that somebody drains the worker.
func (w *worker) enqueue(r *portion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, r)
	if w.busy {
		return
	}
	if !w.sink.begin() {
		// Publish sees for itself that the sink is closed.
		return
	}
	w.busy = true
	go w.drain()
}

// forget drops the portions of a call that has left, and the batch in flight if it carries nothing
// for anybody else.
func (w *worker) forget(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = slices.DeleteFunc(w.queue, func(r *portion) bool { return r.call == c })
	if w.inFlight == nil {
		return
	}
	for _, p := range w.inFlight.parts {
		if slices.Contains(w.queue, p.portion) {
			return
		}
	}
	w.inFlight.abandon(errAbandoned)
}

func (w *worker) drain() {
	defer w.sink.end()
	for {
		ctx, abandon := context.WithCancelCause(w.sink.life)
		f := w.nextBatch(abandon)
		if f == nil {
			abandon(nil)
			return
		}
		w.deliver(ctx, f)
		abandon(nil)
	}
}

// nextBatch fills the next batch from the queue. It returns nil when the worker is empty and no
// longer busy.
func (w *worker) nextBatch(abandon context.CancelCauseFunc) *wireBatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight = nil
	if len(w.queue) == 0 || w.sink.life.Err() != nil {
		w.busy = false
		if w.reported {
			// The call that was held up was cancelled.
			w.reported = false
			w.sink.faults.drop(w.tp)
		}
		return nil
	}
	w.inFlight = fillBatch(w.queue, w.limit)
	w.inFlight.abandon = abandon
	return w.inFlight
}

// fillBatch makes a batch of what is first in a queue. What nobody waits for any more is left out.
func fillBatch(queue []*portion, limit int) *wireBatch {
	f := &wireBatch{buffers: bufferPool.Get().(*buffers)}
	f.buffers.records.reset()
	for _, r := range queue {
		n := 0
		if !r.call.present(func() { n = f.fill(r, limit) }) {
			r.shorten()
			continue
		}
		if n > 0 {
			f.parts = append(f.parts, part{r, n})
		}
		if n < len(r.index)-r.next {
			break
		}
	}
	f.count = f.buffers.records.count
	return f
}

// fill adds messages of a portion and returns how many fit. A broker takes or refuses a batch as a
// whole, so a tombstone goes with the event before it: none of the two is there alone. Only a limit
// of 0, after a batch of no more than the two was refused, parts them.
func (f *wireBatch) fill(r *portion, limit int) (n int) {
	records, left := &f.buffers.records, r.index[r.next:]
	for n < len(left) && f.units < max(limit, 1) {
		added := 0
		if limit > 0 && n+1 < len(left) && r.call.batch[left[n+1]].Value == nil {
			added = records.addPair(&r.call.batch[left[n]], &r.call.batch[left[n+1]])
		} else if records.add(&r.call.batch[left[n]]) {
			added = 1
		}
		if added == 0 {
			break
		}
		n += added
		f.units++
	}
	return n
}

// halved returns the limit of the next batch where this one was refused. ok is false for a single
// record.
func (f *wireBatch) halved() (limit int, ok bool) {
	if f.units > 1 {
		return f.units / 2, true
	}
	return 0, f.count > 1
}

// deliver sends a batch to the broker and notes the results of its portions.
func (w *worker) deliver(ctx context.Context, f *wireBatch) {
	if f.count == 0 {
		// The callers left in this moment.
		f.buffers.release()
		return
	}
	base, err := w.send(ctx, f)
	switch {
	case err == nil:
		w.calm()
		w.follow(base, f.count)
		w.acknowledge(f, base)
	case errors.Is(err, errMoved):
		w.move(f)
	case remedyFor(err) == split && ctx.Err() == nil:
		w.calm()
		w.halve(f, err)
	}
	if !f.lent {
		f.buffers.release()
	}
}

// acknowledge notes that a batch was stored. base is -1 where the broker does not tell the offset.
func (w *worker) acknowledge(f *wireBatch, base int64) {
	// Careful at first, then bold again: the record that was too large may lie behind.
	w.limit = bolder(w.limit)
	for _, p := range f.parts {
		w.note(p.portion, func() { p.portion.acknowledge(p.count, base) })
		if base >= 0 {
			base += int64(p.count)
		}
	}
}

// bolder returns the limit behind one of a batch that was taken.
func bolder(limit int) int {
	if limit > math.MaxInt/2 {
		return limit
	}
	return max(1, 2*limit)
}

// halve makes the next batch half of one that was refused. A single record is rejected, and with it
// ends its portion.
func (w *worker) halve(f *wireBatch, refusal error) {
	if limit, ok := f.halved(); ok {
		w.limit = limit
		return
	}
	r := f.parts[0].portion
	w.note(r, func() { r.reject(w.reason(f, refusal)) })
}

// reason says why a single record was refused.
func (w *worker) reason(f *wireBatch, refusal error) string {
	var code kafkago.Error
	if errors.As(refusal, &code) && code == kafkago.InvalidRecord {
		return fmt.Sprintf("topic %s takes no such record: %v", w.topic, refusal)
	}
	return fmt.Sprintf("the record has %d bytes, as a batch %d by %s, which is more than topic %s takes (max.message.bytes): %v",
		f.buffers.records.maxRecord, len(f.wire)-sizePrefix, w.sink.compression, w.topic, refusal)
}

// move gives all portions back to their calls, to find another worker.
func (w *worker) move(f *wireBatch) {
	w.calm()
	w.sink.forgetTopic(w.topic)
	w.mu.Lock()
	runs := slices.Clone(w.queue)
	w.mu.Unlock()
	for _, r := range runs {
		w.note(r, func() { r.moved = true })
	}
}

// follow notes where a batch was stored. One that does not lie behind the batch before it has the
// topic looked at: others have written there, or it was created again.
func (w *worker) follow(base int64, count int) {
	if w.next > 0 && base != w.next {
		w.sink.doubt(w.topic)
	}
	w.next = base + int64(count)
	if base < 0 {
		w.next = 0
	}
}

// note notes a result of a portion, unless its caller has left, and closes the portion when that
// ends it.
func (w *worker) note(r *portion, note func()) {
	ended := false
	r.call.present(func() {
		note()
		ended = r.next == len(r.index) || r.rejection != nil || r.moved
	})
	if !ended {
		return
	}
	w.mu.Lock()
	w.queue = slices.DeleteFunc(w.queue, func(other *portion) bool { return other == r })
	w.mu.Unlock()
	r.call.finish()
}

// calm ends a fault of this worker. What is sent next may go to another leader.
func (w *worker) calm() {
	if w.reported {
		w.reported = false
		w.sink.faults.ok(w.tp)
		w.sink.doubt(w.topic)
		w.sink.session(w.tp)
	}
}
