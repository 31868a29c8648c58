package kafka

import (
	"encoding/binary"
	"errors"
)

// txnPartition sends to one partition within transactions. It outlives them, and serves one
// goroutine at a time.
type txnPartition struct {
	worker *worker
	// id is that of the next batch.
	id identity
	// next is the offset behind the last batch in an incarnation of the topic, 0 when that is not
	// known. ended says that a marker of ours follows there.
	incarnation string
	next        int64
	ended       bool
	// held: the partition did not answer in time when it was tried last, for the stalls-th time in
	// succession.
	held   bool
	stalls int
	// failure says why the partition has ended the present transaction.
	failure error
	// queue is what is to be sent to it in this transaction.
	queue []*portion
}

// enqueue has a portion sent with the next batches.
func (p *txnPartition) enqueue(r *portion) {
	if p.incarnation != r.incarnation {
		p.incarnation, p.next, p.ended = r.incarnation, 0, false
	}
	p.queue = append(p.queue, r)
}

// committed notes that the transaction was committed.
func (p *txnPartition) committed() { p.ended = p.next > 0 }

// aborted notes that it may have been aborted: where the marker is nobody knows.
func (p *txnPartition) aborted() { p.next, p.ended = 0, false }

// holdsUp reports whether batches to the partition have to wait.
func (p *txnPartition) holdsUp() bool {
	return errors.Is(p.failure, errStalled) || errors.Is(p.failure, errMoved)
}

// trim drops from the queue what was sent.
func (p *txnPartition) trim() {
	for len(p.queue) > 0 && p.queue[0].next == len(p.queue[0].index) {
		p.queue = p.queue[1:]
	}
}

// acknowledge notes that a batch was taken. base is -1 where the broker does not tell the offset.
// One that lies just behind a marker of ours covers that.
func (p *txnPartition) acknowledge(f *wireBatch, base int64) {
	p.worker.limit = bolder(p.worker.limit)
	marker := p.ended && base == p.next+1
	if p.next > 0 && base != p.next && !marker {
		// Others have written there, or the topic was created again.
		p.worker.sink.doubt(p.worker.topic)
	}
	p.next, p.ended = base+int64(f.count), false
	if base < 0 {
		p.next = 0
	}
	p.id, p.held, p.stalls = p.id.advance(f.count), false, 0
	for _, one := range f.parts {
		r, n := one.portion, one.count
		if !r.call.present(func() {
			first := r.index[r.next]
			r.acknowledge(n, base)
			r.call.at[first].Marker = marker && base >= 0
		}) {
			r.next += n
		}
		if base >= 0 {
			base += int64(n)
		}
		marker = false
	}
}

// seal completes a batch of a transaction.
func (p *txnPartition) seal(x *transaction, f *wireBatch) error {
	if err := f.seal(x.t.sink); err != nil {
		return err
	}
	if p.id.producer != x.id.producer || p.id.epoch != x.id.epoch {
		p.id = x.id
	}
	binary.BigEndian.PutUint16(f.wire[attributesAt:], uint16(x.t.sink.codec.id)|transactionalIs)
	stamp(f.wire, p.id)
	return nil
}
