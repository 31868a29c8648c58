package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	kafkago "github.com/segmentio/kafka-go"

	"bridge/sink"
)

// errAbandoned is the cause of an attempt that nobody waits for any more.
var errAbandoned = errors.New("nobody waits for the batch")

// lane sends to one partition, one batch at a time. Runs that arrive while a batch is in flight share the next one. A goroutine
// drains it while there is something to send.
type lane struct {
	sink      *Sink
	topic     string
	partition int32
	place     string

	mu sync.Mutex
	// queue are the open runs in order. A batch in flight holds messages of the first of them.
	queue  []*run
	busy   bool
	flight *flight
	// last is the highest offset that was acknowledged, to this process or by a mark to one before; -1 when none was.
	last int64
	// watches are those of the marks that are being verified.
	watches map[*watch]struct{}

	// What follows belongs to the draining goroutine.

	// id is nil before the first batch. After a broken thread it is that of a batch that may arrive late.
	id     *identity
	broken bool
	// limit bounds the records of a batch, after one was refused.
	limit int
	// held says that a fault has been reported that has not ended.
	held bool
	// lost is the loss that was found. It stays: only an operator can say what to do.
	lost error
}

// flight is a batch on its way with the runs that it carries.
type flight struct {
	parts   []part
	buffers *buffers
	wire    []byte
	count   int
	// stamped is the identity that wire carries.
	stamped *identity
	// lent: an attempt ended without an answer, and the transport may still read wire.
	lent    bool
	abandon context.CancelCauseFunc
}

// part is how many messages of a run a batch carries, from run.next on.
type part struct {
	run   *run
	count int
}

func newLane(s *Sink, topic string, partition int32) *lane {
	return &lane{sink: s, topic: topic, partition: partition, place: place(topic, partition), limit: math.MaxInt, last: -1}
}

// enqueue adds a run and sees to it that somebody drains the lane.
func (l *lane) enqueue(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, r)
	if l.busy {
		return
	}
	if !l.sink.begin() {
		// Publish sees for itself that the sink is closed.
		return
	}
	l.busy = true
	go l.drain()
}

// forget drops the runs of a call that has left, and the batch in flight if it carries nothing for anybody else.
func (l *lane) forget(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = slices.DeleteFunc(l.queue, func(r *run) bool { return r.call == c })
	if l.flight == nil {
		return
	}
	for _, p := range l.flight.parts {
		if slices.Contains(l.queue, p.run) {
			return
		}
	}
	l.flight.abandon(errAbandoned)
}

func (l *lane) drain() {
	defer l.sink.end()
	for {
		ctx, abandon := context.WithCancelCause(l.sink.life)
		f := l.take(abandon)
		if f == nil {
			abandon(nil)
			return
		}
		l.carry(ctx, f)
		abandon(nil)
	}
}

// take fills the next batch from the queue. It returns nil when the lane is empty and no longer busy.
func (l *lane) take(abandon context.CancelCauseFunc) *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flight = nil
	if len(l.queue) == 0 || l.sink.life.Err() != nil {
		l.busy = false
		if l.held {
			// Whoever was held up has left.
			l.held = false
			l.sink.faults.drop(l.place)
		}
		return nil
	}
	f := &flight{abandon: abandon, buffers: bufferPool.Get().(*buffers)}
	f.buffers.records.reset()
	for _, r := range l.queue {
		n := 0
		if !r.call.present(func() { n = f.fill(r, l.limit) }) {
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
	l.flight = f
	return f
}

// fill adds messages of a run and returns how many fit.
func (f *flight) fill(r *run, limit int) int {
	records := &f.buffers.records
	for n, i := range r.index[r.next:] {
		if records.count >= limit || !records.add(&r.call.batch[i]) {
			return n
		}
	}
	return len(r.index) - r.next
}

// carry brings a batch to the broker and settles its runs.
func (l *lane) carry(ctx context.Context, f *flight) {
	if f.count == 0 {
		// The callers left in this moment.
		f.buffers.release()
		return
	}
	if l.lost != nil {
		f.buffers.release()
		l.refuse(l.lost)
		return
	}
	base, err := l.send(ctx, f)
	if err == nil {
		l.lost = l.raise(base, f.count)
	}
	switch {
	case l.lost != nil:
		l.calm()
		l.refuse(l.lost)
	case err == nil:
		l.calm()
		l.acknowledge(f, base)
	case errors.Is(err, errMoved):
		l.move(f)
	case remedyFor(err) == split && ctx.Err() == nil:
		l.calm()
		l.halve(f, err)
	}
	if !f.lent {
		f.buffers.release()
	}
}

// acknowledge settles what a batch carried. base is -1 where the broker does not tell the offset.
func (l *lane) acknowledge(f *flight, base int64) {
	// Careful at first, then bold again: the record that was too large may lie behind.
	if l.limit <= math.MaxInt/2 {
		l.limit *= 2
	}
	for _, p := range f.parts {
		l.settle(p.run, func() {
			for _, i := range p.run.index[p.run.next : p.run.next+p.count] {
				p.run.call.status[i] = sink.Acked
			}
			p.run.next += p.count
			if base >= 0 {
				p.run.last = base + int64(p.count) - 1
			}
		})
		if base >= 0 {
			base += int64(p.count)
		}
	}
}

// halve makes the next batch half of one that was refused. A single record is rejected, and with it ends its run.
func (l *lane) halve(f *flight, refusal error) {
	if f.count > 1 {
		l.limit = f.count / 2
		return
	}
	r := f.parts[0].run
	l.settle(r, func() {
		i := r.index[r.next]
		r.call.status[i] = sink.Rejected
		r.rejection = &sink.Rejection{Index: i, Reason: l.reason(f, refusal)}
	})
}

// reason says why a single record was refused.
func (l *lane) reason(f *flight, refusal error) string {
	var code kafkago.Error
	if errors.As(refusal, &code) && code == kafkago.InvalidRecord {
		return fmt.Sprintf("topic %s takes no such record: %v", l.topic, refusal)
	}
	return fmt.Sprintf("the record has %d bytes, as a batch %d by %s, which is more than topic %s takes (max.message.bytes): %v",
		f.buffers.records.maxRecord, len(f.wire)-sizePrefix, l.sink.compression, l.topic, refusal)
}

// move gives all runs back to their calls, to find another lane.
func (l *lane) move(f *flight) {
	l.calm()
	l.sink.forgetTopic(l.topic)
	l.mu.Lock()
	runs := slices.Clone(l.queue)
	l.mu.Unlock()
	for _, r := range runs {
		l.settle(r, func() { r.moved = true })
	}
}

// pin takes over what a mark says.
func (l *lane) pin(offset uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = max(l.last, int64(offset))
}

// raise notes an acknowledgement. A partition that takes a batch where it had acknowledged records before has lost those: its topic was
// made anew or restored, or a replica without them leads it.
func (l *lane) raise(base int64, count int) error {
	if base < 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watches {
		w.see(base)
	}
	if base <= l.last {
		return behind(&sink.Mark{Place: l.place, Last: uint64(l.last)}, fmt.Sprintf("what came after it has the offset %d", base))
	}
	l.last = base + int64(count) - 1
	return nil
}

// refuse ends the calls of all runs with an error.
func (l *lane) refuse(err error) {
	l.mu.Lock()
	runs := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, r := range runs {
		r.call.fail(err)
	}
}

// settle notes a result of a run, unless its caller has left, and closes the run when that ends it.
func (l *lane) settle(r *run, note func()) {
	ended := false
	r.call.present(func() {
		note()
		ended = r.next == len(r.index) || r.rejection != nil || r.moved
	})
	if !ended {
		return
	}
	l.mu.Lock()
	l.queue = slices.DeleteFunc(l.queue, func(other *run) bool { return other == r })
	l.mu.Unlock()
	r.call.finish()
}

// calm ends a fault of this lane.
func (l *lane) calm() {
	if l.held {
		l.held = false
		l.sink.faults.ok(l.place)
	}
}
