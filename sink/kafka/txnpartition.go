package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"bridge/internal/backoff"
	"bridge/sink"
)

// txnPartition sends to one partition within transactions. It outlives them, and serves one
// goroutine at a time.
type txnPartition struct {
	worker *worker
	// id is that of the next batch.
	id identity
	// next is the offset behind the last batch, 0 when that is not known. ended says that a marker
	// of ours follows there.
	next  int64
	ended bool
	// limit bounds the records of a batch, after one was refused.
	limit int
	// held: the partition did not answer in time when it was tried last. reported: a fault of it
	// was.
	held, reported bool
	// failure says why the partition has ended the present transaction.
	failure error
}

func newTxnPartition(w *worker) *txnPartition { return &txnPartition{worker: w, limit: math.MaxInt} }

// committed notes that the transaction was committed.
func (p *txnPartition) committed() { p.ended = p.next > 0 }

// aborted notes that it may have been aborted: where the marker is nobody knows.
func (p *txnPartition) aborted() { p.next, p.ended = 0, false }

// holdsUp reports whether batches to the partition have to wait.
func (p *txnPartition) holdsUp() bool {
	return errors.Is(p.failure, errStalled) || errors.Is(p.failure, errMoved)
}

// send sends portions one after the other. It returns once all were taken, or why the transaction
// is to be given up.
func (p *txnPartition) send(ctx context.Context, x *transaction, portions []*portion) error {
	for len(portions) > 0 {
		if x.doomed.Load() {
			return errGivenUp
		}
		f := p.batch(portions)
		if f.count == 0 {
			// Nobody waits for what is left.
			f.buffers.release()
			return nil
		}
		base, err := p.deliver(ctx, x, f)
		switch {
		case err == nil:
			p.acknowledge(f, base)
			for len(portions) > 0 && portions[0].next == len(portions[0].index) {
				portions = portions[1:]
			}
		case remedyFor(err) == split && ctx.Err() == nil:
			p.calm()
			if f.count > 1 {
				p.limit = f.count / 2
				err = nil
				break
			}
			p.reject(f, err)
			err = errRefused
		}
		if !f.lent {
			f.buffers.release()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// batch makes a batch of the first portions. Those that nobody waits for are passed over.
func (p *txnPartition) batch(portions []*portion) *wireBatch {
	f := &wireBatch{buffers: bufferPool.Get().(*buffers)}
	f.buffers.records.reset()
	for _, r := range portions {
		n := 0
		if !r.call.present(func() { n = f.fill(r, p.limit) }) {
			r.next = len(r.index)
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

// deliver sends a batch until the leader has answered, and returns its base offset, -1 where the
// broker does not tell.
func (p *txnPartition) deliver(ctx context.Context, x *transaction, f *wireBatch) (int64, error) {
	s := x.t.sink
	wire, err := f.buffers.records.seal(f.buffers.sealed, s.codec)
	if err != nil {
		return -1, errors.Join(kafkago.InvalidRecord, err)
	}
	if s.codec.append != nil {
		f.buffers.sealed = wire
	}
	f.wire = wire
	if len(wire) > s.maxRequestBytes-requestOverhead {
		return -1, answer(int16(kafkago.MessageSizeTooLarge), "more than the brokers take in one request, socket.request.max.bytes")
	}
	if p.id.producer != x.id.producer || p.id.epoch != x.id.epoch {
		p.id = x.id
	}
	binary.BigEndian.PutUint16(wire[attributesAt:], uint16(s.codec.id)|transactionalIs)
	stamp(wire, p.id)
	patience := x.t.stalledAfter
	if p.held {
		patience = x.t.retriedFor
	}
	return p.retry(ctx, x, f, time.Now().Add(patience))
}

// retry sends the batch again until it is answered, the transaction is given up or a moment has
// passed.
func (p *txnPartition) retry(ctx context.Context, x *transaction, f *wireBatch, until time.Time) (int64, error) {
	s, w := x.t.sink, p.worker
	var pause backoff.Backoff
	for {
		base, generation, err := s.cluster.produce(ctx, x.t.producer.coordinator.id, w.topic, w.partition, f.wire)
		if err == nil || remedyFor(err) == done {
			p.id = p.id.advance(f.count)
			p.held = false
			p.calm()
			return base, nil
		}
		var code kafkago.Error
		f.lent = f.lent || !errors.As(err, &code)
		if lost(err) || remedyFor(err) == split {
			if f.lent {
				x.open.Store(true)
			}
			return -1, err
		}
		if ctx.Err() == nil {
			err = p.mend(ctx, generation, err)
			p.reported = true
			s.faults.fail(w.tp, scope(w.topic, w.partition, err), explain(w.topic, err))
		}
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.Is(err, errMoved):
			s.forgetTopic(w.topic)
		case x.doomed.Load():
			err = errGivenUp
		case time.Now().After(until):
			p.held = true
			err = errStalled
		default:
			if err = pause.Wait(ctx); err == nil {
				continue
			}
		}
		if f.lent {
			x.open.Store(true)
		}
		return -1, err
	}
}

// mend does what can be done about a fault before the next attempt, and returns the fault, better
// understood.
func (p *txnPartition) mend(ctx context.Context, generation int, err error) error {
	switch remedyFor(err) {
	case reroute:
		p.worker.sink.cluster.renew(generation)
	case inspect:
		return p.worker.inspect(ctx, generation, err)
	}
	return err
}

// acknowledge notes that a batch was taken. base is -1 where the broker does not tell the offset.
// One that lies just behind a marker of ours covers that.
func (p *txnPartition) acknowledge(f *wireBatch, base int64) {
	if p.limit <= math.MaxInt/2 {
		p.limit *= 2
	}
	marker := p.ended && base == p.next+1
	if p.next > 0 && base != p.next && !marker {
		// Others have written there, or the topic was created again.
		p.worker.sink.doubt(p.worker.topic)
	}
	p.next, p.ended = base+int64(f.count), false
	if base < 0 {
		p.next = 0
	}
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

// reject notes that a single record was refused.
func (p *txnPartition) reject(f *wireBatch, refusal error) {
	r := f.parts[0].portion
	r.call.present(func() {
		i := r.index[r.next]
		r.call.status[i] = sink.Rejected
		r.rejection = &sink.Rejection{Index: i, Reason: p.worker.reason(f, refusal)}
	})
}

// calm ends a fault of the partition. What is sent next may go to another leader.
func (p *txnPartition) calm() {
	if p.reported {
		p.reported = false
		s := p.worker.sink
		s.faults.ok(p.worker.tp)
		s.doubt(p.worker.topic)
		s.session(p.worker.tp)
	}
}
