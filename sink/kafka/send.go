package kafka

import (
	"bytes"
	"context"
	"errors"
	"math"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/internal/backoff"
)

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
		if err == nil {
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
		w.fault(err)
		if err := pause.Wait(ctx); err != nil {
			w.broken = w.broken || f.stamped != nil
			return -1, err
		}
	}
}

// attempt sends the batch once, and returns its base offset, -1 where the broker does not tell.
func (w *worker) attempt(ctx context.Context, f *wireBatch) (int64, int, error) {
	if generation, err := w.identify(ctx); err != nil {
		return -1, generation, err
	}
	if f.stamped == nil || *f.stamped != *w.id {
		if f.lent {
			f.wire = bytes.Clone(f.wire)
		}
		f.stamp(*w.id)
	}
	generation := w.sink.cluster.produce(ctx, "", f)
	if !f.stored() {
		return -1, generation, f.fault
	}
	next := w.id.advance(f.count)
	w.id = &next
	return f.base, generation, nil
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

// identity is what an idempotent producer puts on a batch for one partition. The broker takes a
// batch when its sequence is the next one, answers one that it has (among the last five) with its
// offset, and refuses any other.
//
// Why a worker that has lost the thread takes the next epoch and not a new producer id: an attempt
// without an answer may reach the broker late, from a socket buffer say, after the batches that
// followed it. With the same producer id it carries an older epoch or a sequence that has passed,
// and is refused; what the log then shows is a repeat directly after the first copy at worst,
// never an older message after a newer one. Under a new producer id the broker would take the late
// copy for the first batch of a producer that it does not know, and append it. So does Java's
// producer since KIP-360. Epochs are counted for each worker by itself, because brokers keep them
// for each partition.
//
// A new id is taken only where there is no next epoch (after 32,767 losses of the thread on one
// worker) or where the broker says that somebody else uses the id; the order of late copies is then
// open.
type identity struct {
	producer int64
	epoch    int16
	sequence int32
}

// lastEpoch is the one that has no next.
const lastEpoch = math.MaxInt16

// advance returns the identity of the batch after one of n records. Sequences go on from 2^31-1 to
// 0.
func (id identity) advance(n int) identity {
	id.sequence = int32((int64(id.sequence) + int64(n)) & math.MaxInt32)
	return id
}

// nextEpoch returns the identity of the first batch of the next epoch; false if there is none.
func (id identity) nextEpoch() (identity, bool) {
	if id.epoch == lastEpoch {
		return id, false
	}
	return identity{producer: id.producer, epoch: id.epoch + 1}, true
}

// producers hands out the producer id that the workers share.
type producers struct {
	cluster *cluster

	mu      sync.Mutex
	current identity
	known   bool
}

// other returns the first identity of a producer that is not worn. Workers that ask at the same
// time get the same one.
func (p *producers) other(ctx context.Context, worn *identity) (identity, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known && (worn == nil || worn.producer != p.current.producer) {
		return p.current, 0, nil
	}
	// Without a transactional id any broker answers.
	res, generation, err := send[*kmsg.InitProducerIDResponse](ctx, p.cluster, p.cluster.request(&kmsg.InitProducerIDRequest{Version: 4, ProducerID: -1, ProducerEpoch: -1}))
	if err == nil {
		err = answer(res.ErrorCode, "")
	}
	if err != nil {
		return identity{}, generation, err
	}
	fresh := identity{producer: res.ProducerID, epoch: res.ProducerEpoch}
	p.current, p.known = fresh, true
	return fresh, generation, nil
}
