package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"

	"bridge/internal/backoff"
)

// requestOverhead is more than what a produce request has around its one batch.
const requestOverhead = 1 << 10

// errMoved says that the partition does not exist any more.
var errMoved = errors.New("the topic has fewer partitions now")

// send brings a batch to the broker, however long that takes, and returns its base offset, -1 where
// the broker does not tell. It ends without that when ctx does, when the broker refuses the batch
// for good, and when the partition is gone.
func (w *worker) send(ctx context.Context, f *wireBatch) (int64, error) {
	if err := f.seal(w.sink); err != nil {
		return -1, err
	}
	var pause backoff.Backoff
	for {
		base, generation, err := w.attempt(ctx, f)
		if err == nil || remedyFor(err) == done {
			return base, nil
		}
		if ctx.Err() != nil {
			// Invariant 3: the batch may arrive late. The next epoch keeps it from coming after
			// what follows.
			w.broken = w.broken || f.stamped != nil
			return -1, err
		}
		if remedyFor(err) == split {
			return -1, err
		}
		if err = w.mend(ctx, generation, err); errors.Is(err, errMoved) {
			w.broken = true
			return -1, err
		}
		w.reported = true
		w.sink.faults.fail(w.tp, scope(w.topic, w.partition, err), explain(w.topic, err))
		if err := pause.Wait(ctx); err != nil {
			w.broken = w.broken || f.stamped != nil
			return -1, err
		}
	}
}

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
	if len(wire) > s.maxRequestBytes-requestOverhead {
		return answer(int16(kafkago.MessageSizeTooLarge), "more than the brokers take in one request, socket.request.max.bytes")
	}
	return nil
}

// attempt sends the batch once.
func (w *worker) attempt(ctx context.Context, f *wireBatch) (int64, int, error) {
	if generation, err := w.identify(ctx); err != nil {
		return -1, generation, err
	}
	if f.stamped == nil || *f.stamped != *w.id {
		if f.lent {
			f.wire = bytes.Clone(f.wire)
		}
		id := *w.id
		stamp(f.wire, id)
		f.stamped = &id
	}
	base, generation, err := w.sink.cluster.produce(ctx, w.topic, w.partition, f.wire)
	var code kafkago.Error
	switch {
	case err == nil || remedyFor(err) == done:
		next := w.id.advance(f.count)
		w.id = &next
	case !errors.As(err, &code):
		f.lent = true
	}
	return base, generation, err
}

// identify sees to it that the worker has an identity that goes on where the broker expects it.
func (w *worker) identify(ctx context.Context) (int, error) {
	if w.id != nil && !w.broken {
		return 0, nil
	}
	if w.id != nil {
		if next, ok := w.id.nextEpoch(); ok {
			w.id, w.broken = &next, false
			return 0, nil
		}
	}
	fresh, generation, err := w.sink.producers.other(ctx, w.id)
	if err != nil {
		return generation, err
	}
	w.id, w.broken = &fresh, false
	return generation, nil
}

// mend does what can be done about a fault before the next attempt, and returns the fault, better
// understood.
func (w *worker) mend(ctx context.Context, generation int, err error) error {
	switch remedyFor(err) {
	case restart:
		w.broken = true
		if errors.Is(err, kafkago.InvalidProducerEpoch) || errors.Is(err, kafkago.ProducerFenced) {
			w.id = &identity{producer: w.id.producer, epoch: lastEpoch}
		}
	case reroute:
		w.sink.cluster.renew(generation)
	case inspect:
		return w.inspect(ctx, generation, err)
	}
	return err
}

// inspect asks a broker what the view of the cluster lacks. A view that is merely old is dropped; a
// leader or a topic that does not exist is not sought by dropping everybody's connections.
func (w *worker) inspect(ctx context.Context, generation int, err error) error {
	found, seen, asked := w.sink.cluster.metadata(ctx, []string{w.topic})
	if asked != nil {
		w.sink.cluster.renew(seen)
		return asked
	}
	if len(found.Topics) != 1 {
		return err
	}
	t := &found.Topics[0]
	if code := answer(t.ErrorCode, ""); code != nil {
		return code
	}
	for _, p := range t.Partitions {
		if p.Partition != w.partition {
			continue
		}
		if p.Leader < 0 {
			return kafkago.LeaderNotAvailable
		}
		w.sink.cluster.renew(generation)
		return err
	}
	return errMoved
}
