package kafka

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/kafka/broker"
)

var errMoved = errors.New("the topic has fewer partitions now")

// worker sends to one partition, one batch at a time. Portions that arrive while a batch is in
// flight share the next one. A goroutine drains it while there is something to send; with
// transactions that is the one of all.
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

	// What follows belongs to the draining goroutine.

	// limit bounds the units of a batch, after one was refused; see wireBatch.fill.
	limit int
	// reported says that a fault has been reported that has not ended. late: the topic has refused
	// the times of records, so none is sent with one before now any more: others that are as old
	// may lie behind, also in one transaction.
	reported, late bool
	// id is that of the next batch, nil before the first one. With broken, after a lost thread, it
	// is that of a batch that may arrive late.
	id     *identity
	broken bool
	// next is the offset behind the last batch, 0 when that is not known.
	next int64

	inTransactions
}

type inTransactions struct {
	// incarnation is that of the topic in which next lies. ended says that a marker of ours follows
	// there.
	incarnation string
	ended       bool
	// held: the partition did not answer in time when it was tried last, for the stalls-th time in
	// succession.
	held   bool
	stalls int
	// failure says why the partition has ended the present transaction.
	failure error
	// sending is what is to be sent in this transaction.
	sending []*portion
}

func newWorker(s *Sink, topic string, partition int32) *worker {
	return &worker{sink: s, topic: topic, partition: partition, tp: broker.TPName(topic, partition), limit: math.MaxInt}
}

func (w *worker) enqueue(r *portion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, r)
	if w.busy || !w.sink.begin() {
		// Of a closed sink Publish sees for itself that it is closed.
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
	defer w.sink.drains.Done()
	for {
		ctx, abandon := context.WithCancelCause(w.sink.life)
		f := w.nextBatch(abandon)
		if f != nil {
			w.deliver(ctx, f)
		}
		abandon(nil)
		if f == nil {
			return
		}
	}
}

// nextBatch returns nil when the worker is empty and no longer busy.
func (w *worker) nextBatch(abandon context.CancelCauseFunc) *wireBatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight = nil
	if len(w.queue) == 0 || w.sink.life.Err() != nil {
		w.busy = false
		if w.reported {
			// The call that was held up was cancelled.
			w.reported = false
			w.sink.faults.Drop(w.tp)
		}
		return nil
	}
	w.inFlight = w.fill(w.queue)
	w.inFlight.abandon = abandon
	return w.inFlight
}

// deliver sends a batch, however long that takes, and notes the results of its portions: until the
// broker has it or refuses it for good, the partition is gone, or ctx ends.
func (w *worker) deliver(ctx context.Context, f *wireBatch) {
	defer f.release()
	if f.count == 0 {
		// The callers left in this moment.
		return
	}
	var pause backoff.Backoff
	tried := false
	for f.fault = f.seal(w.sink); broker.RemedyFor(f.fault) != broker.Split; {
		generation := w.attempt(ctx, f)
		if f.stored() {
			w.calm()
			f.taken(w.note)
			return
		}
		if ctx.Err() != nil {
			// Invariant 3: the batch may arrive late. The next epoch keeps it from coming after
			// what follows.
			w.broken = w.broken || f.stamped != nil
			return
		}
		if broker.RemedyFor(f.fault) == broker.Split {
			break
		}
		err := w.remedy(ctx, generation, f.fault)
		if errors.Is(err, errMoved) {
			// All portions go back to their calls, to find another worker.
			w.broken = true
			w.calm()
			w.sink.believe(w.topic, 0)
			w.mu.Lock()
			portions := slices.Clone(w.queue)
			w.mu.Unlock()
			for _, r := range portions {
				w.note(r, func() { r.moved = true })
			}
			return
		}
		w.fault(err)
		old := errors.Is(f.fault, kafkago.InvalidTimestamp)
		if old && w.late {
			// The time of now is refused, too.
			pause.First = time.Second
		}
		if pause.Wait(ctx) != nil {
			w.broken = w.broken || f.stamped != nil
			return
		}
		if old {
			// It waited for longer than the topic lets records be old, and is made again, maybe of
			// other messages: no attempt before may answer for these.
			w.late, w.broken = true, w.broken || tried
			return
		}
		tried = true
	}
	w.calm()
	f.refused(w.note)
}

func (w *worker) attempt(ctx context.Context, f *wireBatch) (generation int) {
	if generation, f.fault = w.identify(ctx); f.fault != nil {
		return generation
	}
	if f.stamped == nil || *f.stamped != *w.id {
		if f.unanswered {
			f.wire = bytes.Clone(f.wire)
		}
		f.stamp(*w.id)
	}
	return produce(ctx, w.sink.cluster, "", f)
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

// remedy does what can be done about a fault before the next attempt, and returns the fault, better
// understood.
func (w *worker) remedy(ctx context.Context, generation int, err error) error {
	switch broker.RemedyFor(err) {
	case broker.Restart:
		w.broken = true
		if w.id != nil && (errors.Is(err, kafkago.InvalidProducerEpoch) || errors.Is(err, kafkago.ProducerFenced)) {
			w.id = &identity{producer: w.id.producer, epoch: lastEpoch}
		}
	case broker.Reroute:
		w.sink.cluster.Renew(generation)
	case broker.Inspect:
		return w.inspect(ctx, generation, err)
	}
	return err
}

// inspect asks a broker what the view of the cluster lacks. A view that is merely old is dropped; a
// leader or a topic that does not exist is not sought by dropping everybody's connections.
func (w *worker) inspect(ctx context.Context, generation int, err error) error {
	found, seen, asked := w.sink.cluster.Metadata(ctx, []string{w.topic})
	if asked != nil {
		w.sink.cluster.Renew(seen)
		return asked
	}
	if len(found.Topics) != 1 {
		return err
	}
	t := &found.Topics[0]
	if code := broker.Answer(t.ErrorCode, ""); code != nil {
		return code
	}
	for _, p := range t.Partitions {
		if p.Partition != w.partition {
			continue
		}
		if p.Leader < 0 {
			return kafkago.LeaderNotAvailable
		}
		w.sink.cluster.Renew(generation)
		return err
	}
	return errMoved
}

// follow notes that a batch was stored at base, -1 where the broker does not tell, and reports
// whether a marker of ours lies before it. One that does not lie behind the batch before it has the
// topic looked at: others have written there, or it was created again.
func (w *worker) follow(base int64, count int) (marker bool) {
	w.limit = bolder(w.limit)
	marker = w.ended && base >= 0 && base == w.next+1
	if w.next > 0 && base != w.next && !marker {
		w.sink.believe(w.topic, broker.LayoutAge)
	}
	w.next, w.ended = base+int64(count), false
	if base < 0 {
		w.next = 0
	}
	return marker
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
		w.sink.faults.OK(w.tp)
		w.sink.believe(w.topic, broker.LayoutAge)
		w.sink.options.Session(w.tp)
	}
}

func (w *worker) fault(err error) {
	w.reported = true
	w.sink.faults.Fail(w.tp, broker.Scope(w.topic, w.partition, err), w.sink.cluster.Explain(w.topic, err))
}
