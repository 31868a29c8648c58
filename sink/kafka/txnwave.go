package kafka

import (
	"context"
	"errors"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"bridge/internal/backoff"
)

const (
	// waveBytes bounds the records that are sent at once, but for the first batch.
	waveBytes = 16 << 20
	// verifiedWithin is how long leaders may answer NOT_ENOUGH_REPLICAS until that is reported: so
	// they answer while they ask the coordinator whether the transaction is open (KIP-890).
	verifiedWithin = time.Second
	// leastWait is how long leaders may take to answer a request at least.
	leastWait = 100 * time.Millisecond
	// patientEvery: so often a partition that is tried again may take as long as at first. It may
	// be slow, not dead.
	patientEvery = 8
)

// wave is a batch for each of several partitions, all sent at once, in one request to each leader:
// leaders verify the transaction of a producer for one request at a time.
type wave struct {
	x       *transaction
	batches []*txnBatch
	began   time.Time
	// limit is how long a partition may fail to answer.
	limit time.Duration
}

// txnBatch is a batch on its way to a partition.
type txnBatch struct {
	*wireBatch
	p *txnPartition
	// base is the offset that it was stored at, -1 where the broker does not tell; fault is why it
	// was not stored.
	base  int64
	fault error
	// unfit: it cannot be sent at all.
	unfit bool
}

// newWave makes batches of what is queued for partitions.
func newWave(x *transaction, partitions []*txnPartition) *wave {
	w := &wave{x: x, began: time.Now(), limit: x.t.stalledAfter}
	bytes := 0
	for _, p := range partitions {
		if p.trim(); len(p.queue) == 0 || bytes > min(waveBytes, x.t.room) {
			continue
		}
		b := &txnBatch{wireBatch: fillBatch(p.queue, p.worker.limit), p: p}
		if b.count == 0 {
			b.buffers.release()
			p.queue = nil
			continue
		}
		b.fault = p.seal(x, b.wireBatch)
		b.unfit = b.fault != nil
		bytes += len(b.wire)
		if p.held && p.stalls%patientEvery > 0 {
			w.limit = x.t.retriedFor
		}
		w.batches = append(w.batches, b)
	}
	return w
}

// send sends the batches until each was answered. What a broker finds too large goes in halves with
// the next wave.
func (w *wave) send(ctx context.Context) error {
	pause := backoff.Backoff{First: 5 * time.Millisecond, Max: time.Second}
	for left := w.batches; ; {
		until := w.began.Add(max(time.Since(w.began)+leastWait, w.limit))
		generation := w.x.t.sink.cluster.produceAll(ctx, until, w.x.t.producer.coordinator.id, left)
		var failure error
		again := left[:0:0]
		for _, b := range left {
			err := b.answered()
			// What was refused may have arrived before, too.
			w.x.open = w.x.open || b.lent && remedyFor(b.fault) == split
			switch {
			case err == nil:
			case errors.Is(err, errRefused), lost(err):
				if failure == nil || lost(err) {
					failure = err
				}
			default:
				again = append(again, b)
			}
		}
		if failure == nil && len(again) == 0 {
			return nil
		}
		if failure == nil {
			failure = w.mend(ctx, generation, again)
		}
		if failure == nil {
			failure = pause.Wait(ctx)
		}
		for _, b := range again {
			w.x.open = w.x.open || failure != nil && b.lent
		}
		if failure != nil {
			return failure
		}
		left = again
	}
}

// mend does what can be done about batches that were not answered for good, or returns why they are
// not sent again.
func (w *wave) mend(ctx context.Context, generation int, again []*txnBatch) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := w.x.t.sink
	took := time.Since(w.began)
	var failure error
	for _, b := range again {
		p, err := b.p, b.fault
		switch remedyFor(err) {
		case reroute:
			s.cluster.renew(generation)
		case inspect:
			err = p.worker.inspect(ctx, generation, err)
		}
		if took > verifiedWithin || !errors.Is(err, kafkago.NotEnoughReplicas) {
			p.worker.reported = true
			s.faults.fail(p.worker.tp, scope(p.worker.topic, p.worker.partition, err), explain(p.worker.topic, err))
		}
		switch {
		case errors.Is(err, errMoved):
			s.forgetTopic(p.worker.topic)
			p.failure, failure = errMoved, errMoved
		case took >= w.limit:
			p.held = true
			p.stalls++
			p.failure, failure = errStalled, errStalled
		}
	}
	return failure
}

// answered notes the answer about a batch. The error says why the transaction cannot be committed,
// or that the batch is to be sent again.
func (b *txnBatch) answered() error {
	var code kafkago.Error
	p, err := b.p, b.fault
	b.lent = b.lent || err != nil && !errors.As(err, &code)
	switch {
	case err == nil || remedyFor(err) == done:
		p.acknowledge(b.wireBatch, b.base)
		err = nil
	case remedyFor(err) == split:
		limit, ok := b.halved()
		if !ok {
			r := b.parts[0].portion
			r.call.present(func() { r.reject(p.worker.reason(b.wireBatch, err)) })
			err = errRefused
			break
		}
		p.worker.limit, err = limit, nil
	default:
		return err
	}
	p.worker.calm()
	if !b.lent {
		b.buffers.release()
	}
	return err
}
