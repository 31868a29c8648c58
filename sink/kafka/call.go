package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/sink"
)

// errAbandoned is the cause of an attempt that nobody waits for any more.
var errAbandoned = errors.New("nobody waits for the batch")

// call is one Publish. Its messages belong to the caller again once it has left.
type call struct {
	batch    []sink.Message
	status   []sink.Status
	at       []sink.At
	portions []*portion
	// tps are those of the portions, each once. Entries of at index them.
	tps []sink.TPRef

	open atomic.Int64
	// done is closed when no portion is open any more, and of a transaction when that has ended
	// for the call, with err.
	done chan struct{}
	err  error
	// bytes is about how much the call takes on the wire, of a transaction.
	bytes int

	// mu is held for reading while a worker reads the batch or writes a result, and for writing to
	// leave.
	mu   sync.RWMutex
	left bool
}

// portion is the part of a call that goes to one worker. Its fields are the worker's while it is
// open.
type portion struct {
	call   *call
	worker *worker
	// tp is an index into call.tps, incarnation the id of the topic.
	tp          int32
	incarnation string
	// index are indices of the batch, ascending; those before next are done.
	index []int
	next  int
	// cut says that index lacks what nobody waited for any more.
	cut bool
	// rejection ends the portion early.
	rejection *sink.Rejection
	// moved ends the portion early because the worker leads nowhere any more.
	moved bool
}

func newCall(batch []sink.Message) *call {
	return &call{batch: batch, status: make([]sink.Status, len(batch)), at: make([]sink.At, len(batch))}
}

// acknowledge notes that the next n messages of a portion are stored from offset base on; -1: the
// broker does not tell. marker: a marker of ours lies before them.
func (r *portion) acknowledge(n int, base int64, marker bool) {
	for _, i := range r.index[r.next : r.next+n] {
		r.call.status[i] = sink.Acked
		if base >= 0 {
			r.call.at[i] = sink.At{Offset: uint64(base), TP: r.tp, Known: true, Marker: marker}
			base++
		}
		marker = false
	}
	r.next += n
}

// finish ends a portion. The way of a row, which tests/way traces, ends with it.
func (c *call) finish() {
	if c.open.Add(-1) == 0 {
		close(c.done)
	}
}

// leave ends the use of the batch by the workers. It blocks while one of them encodes.
func (c *call) leave() {
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	for _, r := range c.portions {
		r.worker.forget(c)
	}
}

// present calls do unless the caller has left, and reports whether it did.
func (c *call) present(do func()) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.left {
		do()
	}
	return !c.left
}

// outcome sums up the portions. The workers are done with the call.
func (c *call) outcome(rejected []sink.Rejection) sink.Outcome {
	for _, r := range c.portions {
		if r.rejection != nil {
			rejected = append(rejected, *r.rejection)
		}
	}
	slices.SortFunc(rejected, func(a, b sink.Rejection) int { return cmp.Compare(a.Index, b.Index) })
	return sink.Outcome{Status: c.status, Rejected: rejected, At: c.at, TPs: c.tps}
}

func (c *call) end(err error) {
	c.err = err
	close(c.done)
}

// partlySent reports whether some of the call was not sent, because its caller has left.
func (c *call) partlySent() bool { return c.any(func(r *portion) bool { return r.cut }) }

func (c *call) any(has func(*portion) bool) bool { return slices.ContainsFunc(c.portions, has) }

// reset forgets what was stored of a call in a transaction that was aborted.
func (c *call) reset() {
	c.present(func() {
		for i, status := range c.status {
			if status == sink.Acked {
				c.status[i] = sink.Pending
			}
		}
		clear(c.at)
	})
	for _, r := range c.portions {
		r.next = 0
	}
}

// requestOverhead is more than what a produce request has around its one batch.
const requestOverhead = 1 << 10

// wireBatch is a batch on its way to a partition, with the portions that it carries.
type wireBatch struct {
	worker  *worker
	parts   []part
	buffers *buffers
	wire    []byte
	// count counts the records, units what a batch is split into: a deleted event and the tombstone
	// behind it are one.
	count, units int
	// stamped is the identity that wire carries.
	stamped *identity
	// base is the offset that it was stored at, -1 where the broker does not tell; fault is why it
	// was not stored.
	base  int64
	fault error
	// unfit: no request takes it, so it cannot be sent at all.
	unfit bool
	// unanswered: an attempt ended without an answer. The transport may still read wire, and the
	// batch may still arrive.
	unanswered bool
	// abandon ends the attempts, but for those of a transaction.
	abandon context.CancelCauseFunc
}

// part is how many messages of a portion a batch carries, from portion.next on.
type part struct {
	portion *portion
	count   int
}

// fill makes a batch of what is first in a queue. What nobody waits for any more is left out.
func (w *worker) fill(queue []*portion) *wireBatch {
	f := &wireBatch{worker: w, buffers: bufferPool.Get().(*buffers)}
	f.buffers.records.reset()
	if w.late {
		f.buffers.records.earliest = time.Now().UnixMilli()
	}
	for _, r := range queue {
		n := 0
		if !r.call.present(func() { n = f.fill(r, w.limit) }) {
			r.cut = r.cut || r.next < len(r.index)
			r.index = r.index[:r.next]
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
func (f *wireBatch) halved() (limit int, ok bool) { return f.units / 2, f.count > 1 }

// bolder returns the limit behind one of a batch that was taken: the record that was too large may
// lie behind.
func bolder(limit int) int { return max(1, 2*min(limit, math.MaxInt/2)) }

// seal completes the batch but for its producer, or returns why no broker can take it.
func (f *wireBatch) seal(s *Sink) error {
	wire, err := f.buffers.records.seal(f.buffers.sealed, s.codec)
	if err != nil {
		return fmt.Errorf("compress: %w: %w", kafkago.InvalidRecord, err)
	}
	if s.codec.append != nil {
		f.buffers.sealed = wire
	}
	f.wire = wire
	if len(wire) > s.options.MaxRequestBytes-requestOverhead {
		return broker.Answer(int16(kafkago.MessageSizeTooLarge), "more than the brokers take in one request, socket.request.max.bytes")
	}
	return nil
}

func (f *wireBatch) stamp(id identity) {
	stamp(f.wire, id)
	f.stamped = &id
}

func (f *wireBatch) stored() bool { return f.fault == nil || broker.RemedyFor(f.fault) == broker.Done }

// taken notes, by note, that the broker has the batch. One that lies just behind a marker of ours
// covers that.
func (f *wireBatch) taken(note func(r *portion, do func())) {
	w, base := f.worker, f.base
	marker := w.follow(base, f.count)
	next := w.id.advance(f.count)
	w.id = &next
	for _, p := range f.parts {
		note(p.portion, func() { p.portion.acknowledge(p.count, base, marker) })
		if base >= 0 {
			base += int64(p.count)
		}
		marker = false
	}
}

// refused has the next batch be smaller than this one, or notes that a single record is rejected,
// and reports that.
func (f *wireBatch) refused(note func(r *portion, do func())) (rejected bool) {
	limit, ok := f.halved()
	if ok {
		f.worker.limit = limit
		return false
	}
	w, r := f.worker, f.parts[0].portion
	reason := fmt.Sprintf("the record has %d bytes, as a batch %d by %s, which is more than topic %s takes (max.message.bytes): %v",
		f.buffers.records.maxRecord, len(f.wire)-sizePrefix, w.sink.options.Compression, w.topic, f.fault)
	if errors.Is(f.fault, kafkago.InvalidRecord) {
		reason = fmt.Sprintf("topic %s takes no such record: %v", w.topic, f.fault)
	}
	note(r, func() {
		i := r.index[r.next]
		r.call.status[i] = sink.Rejected
		r.rejection = &sink.Rejection{Index: i, Reason: reason}
	})
	return true
}

// release gives the memory of the batch back, unless the transport may still read it.
func (f *wireBatch) release() {
	if !f.unanswered {
		f.buffers.release()
	}
}
