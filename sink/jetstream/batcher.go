package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"example.org/bridge/internal/backoff"
	"example.org/bridge/sink"
)

// batchMessages is how many messages a server takes in an atomic batch.
const batchMessages = 1000

// batcher publishes to Options.Stream in atomic batches, one after the other, each conditional on
// the claim of this process (decision 21). Its goroutine alone publishes.
type batcher struct {
	sink   *Sink
	submit chan *job
	fences chan chan error
	// steps, when not nil, is told of each step of a batch: for tests.
	steps func(step string)

	// claimed is the sequence of the claim, 0 where this process has none: no stream ends before.
	claimed atomic.Uint64

	// What follows belongs to the goroutine of serve.

	claim  *claim
	queue  []*job
	fenced []chan error
	// due: so much was stored that retention may soon remove the claim. looked is when that was
	// last seen to, and seen the last sequence of then; fresh are the bytes sent since.
	due    bool
	looked time.Time
	seen   uint64
	fresh  int64
	// most is how many messages the next batch has, limit the most for the stream, and taken the
	// most that the server is known to take.
	most, limit, taken int
	// wire is the connection in use, nil after a fault or before the first one.
	wire *wire
	env  *envelope
	// limits and subjects of the stream are as they were at the time asked; zero: ask again.
	limits   limits
	subjects []string
	kept     kept
	asked    time.Time
	// batches and token count what was sent.
	batches, token uint64
	// explain has the next batch ask for an answer to each message. It is set behind a refusal.
	explain bool
	pause   backoff.Backoff
}

func newBatcher(s *Sink) *batcher {
	return &batcher{
		sink: s, submit: make(chan *job), fences: make(chan chan error), claim: newClaim(&s.options), env: newEnvelope(),
		most: batchMessages, limit: batchMessages, taken: batchMessages, pause: backoff.Backoff{First: 2 * time.Millisecond, Max: time.Second},
	}
}

// publish is Sink.Publish.
func (b *batcher) publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	j := newJob(batch)
	life := b.sink.life
	select {
	case b.submit <- j:
	case <-ctx.Done():
		return j.leave(context.Cause(ctx))
	case <-life.Done():
		return j.leave(sink.ErrClosed)
	}
	select {
	case <-j.done:
		return j.leave(nil)
	case <-life.Done():
		return j.leave(sink.ErrClosed)
	case <-ctx.Done():
	}
	if j.onTheWay() {
		// It is most likely stored: to know it spares reading back.
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-j.done:
		case <-timer.C:
		case <-life.Done():
		}
	}
	return j.leave(context.Cause(ctx))
}

// fence is Sink.Fence.
func (b *batcher) fence(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case b.fences <- done:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.sink.life.Done():
		return sink.ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.sink.life.Done():
		return sink.ErrClosed
	}
}

// serve publishes what is submitted until ctx ends.
func (b *batcher) serve(ctx context.Context) {
	defer b.disconnect()
	for b.await(ctx) {
		if b.due || time.Since(b.looked) >= b.renewal() {
			b.renew(ctx)
			b.claimed.Store(b.claim.last())
		}
		if len(b.queue)+len(b.fenced) == 0 {
			continue
		}
		err := b.ready(ctx)
		b.claimed.Store(b.claim.last())
		if ctx.Err() != nil {
			return
		}
		for _, done := range b.fenced {
			done <- err
		}
		b.fenced = b.fenced[:0]
		if err != nil {
			for _, j := range b.queue {
				j.finish(err)
			}
			b.prune()
			continue
		}
		if list := b.pick(ctx); len(list) > 0 && !b.transmit(ctx, list) && b.pause.Wait(ctx) != nil {
			return
		}
		b.prune()
	}
}

// await blocks until there is something to do, and takes in all that is there. It returns false
// when ctx ends.
func (b *batcher) await(ctx context.Context) bool {
	timer := time.NewTimer(b.rest(time.Now()))
	defer timer.Stop()
	select {
	case j := <-b.submit:
		b.queue = append(b.queue, j)
	case done := <-b.fences:
		b.fenced = append(b.fenced, done)
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	for {
		select {
		case j := <-b.submit:
			b.queue = append(b.queue, j)
		case done := <-b.fences:
			b.fenced = append(b.fenced, done)
		default:
			return true
		}
	}
}

// rest is how long there is nothing to do but for what is submitted.
func (b *batcher) rest(now time.Time) time.Duration {
	if b.due {
		return 0
	}
	wait := max(0, b.renewal()-now.Sub(b.looked))
	for _, j := range b.queue {
		if j.fault == "" {
			return 0
		}
		wait = min(wait, max(0, j.until.Sub(now)))
	}
	return wait
}

// prune removes the jobs that are over.
func (b *batcher) prune() {
	b.queue = slices.DeleteFunc(b.queue, func(j *job) bool {
		if !j.left() {
			return false
		}
		b.letGo(j, j.abandoned())
		return true
	})
}

// postpone keeps a job back for a while.
func (b *batcher) postpone(j *job, fault string, err error) {
	if fault != j.fault {
		b.release(j)
		j.fault = fault
	}
	j.until = time.Now().Add(j.pause.Next())
	b.sink.faults.fail(b.sink.options.Stream, fault, err)
}

// release notes that a job does not wait any more.
func (b *batcher) release(j *job) { b.letGo(j, false) }

// letGo ends the fault of a job, or with abandoned forgets it, unless another job has it.
func (b *batcher) letGo(j *job, abandoned bool) {
	fault := j.fault
	j.fault = ""
	if fault != "" && !slices.ContainsFunc(b.queue, func(other *job) bool { return other.fault == fault }) {
		b.sink.faults.gone(fault, abandoned)
	}
}

// fail notes that batches are refused, until one is stored.
func (b *batcher) fail(err error) {
	if b.wire != nil && b.wire.alive() {
		b.sink.faults.fail(b.sink.options.Stream, b.fault(), err)
	}
}

// fault names what keeps batches from being stored.
func (b *batcher) fault() string { return b.sink.options.Stream + " batches" }

// ready returns when there is a connection and the claim is held. The error is that of ctx, or says
// that the claim is lost.
func (b *batcher) ready(ctx context.Context) error {
	name := b.sink.options.Stream
	var pause backoff.Backoff
	for {
		if b.claim.lost != nil {
			return b.claim.lost
		}
		if err := b.connect(ctx); err != nil {
			return err
		}
		if b.claim.held() {
			return nil
		}
		info, err := b.claim.acquire(ctx, b.wire.session)
		switch {
		case err == nil:
			b.describe(info)
			b.sink.faults.end(name)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, sink.ErrFenced):
			b.sink.faults.end(name)
			return err
		case errors.Is(err, errOtherClaim):
			b.sink.options.Logger.Debug("another claim was stored first", "stream", name)
		case b.wire.alive():
			b.sink.faults.fail(name, name, b.explained(err))
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// explained returns the refusal that explains why a claim has no answer, else err.
func (b *batcher) explained(err error) error {
	claim := b.sink.options.Claim
	select {
	case denied := <-b.wire.denied:
		if strings.Contains(denied.Error(), strconv.Quote(claim)) {
			return fmt.Errorf("publish to %s: grant the user the right to publish on it: %w", claim, denied)
		}
	default:
	}
	return err
}

// connect returns when there is a connection, with an inbox for answers.
func (b *batcher) connect(ctx context.Context) error {
	for b.wire == nil || !b.wire.alive() {
		b.disconnect()
		s, err := b.sink.conns.get(ctx)
		if err != nil {
			return err
		}
		if b.wire, err = s.open(batchMessages); err != nil {
			// Only a connection that has just gone refuses a subscription.
			b.wire = nil
			continue
		}
		// It may be another stream by now.
		b.asked = time.Time{}
		b.sink.options.Session(b.sink.options.Stream)
	}
	return nil
}

func (b *batcher) disconnect() {
	if b.wire != nil {
		b.wire.close()
		b.wire = nil
	}
}

// pick returns the jobs of the next batch, in the order of their coming. It ends those with
// messages that the stream does not take.
func (b *batcher) pick(ctx context.Context) (list []*job) {
	if b.asked.IsZero() {
		info, err := describe(ctx, b.wire.session, b.sink.options.Stream)
		if err != nil {
			b.fail(err)
			// What ends the wait is seen by serve.
			_ = b.pause.Wait(ctx)
			return nil
		}
		if b.describe(info); b.claim.lost != nil {
			return nil
		}
	}
	now, n := time.Now(), 0
	for _, j := range b.queue {
		if j.fault != "" && now.Before(j.until) || !b.check(ctx, j) {
			continue
		}
		list = append(list, j)
		if n += j.n - j.next; n >= b.most {
			break
		}
	}
	return list
}

// check reports whether the stream takes the messages of a job.
func (b *batcher) check(ctx context.Context, j *job) bool {
	if j.checked.Equal(b.asked) && j.fault == "" {
		return true
	}
	if longest := j.longest(); longest > b.limits.line && (b.limits.guess || time.Since(b.asked) > limitsAge) {
		if err := b.limits.measure(ctx, b.wire.session, longest); err != nil {
			return false
		}
	}
	rejected, foreign := j.screen(b.limits, b.subjects)
	if (len(rejected) > 0 || foreign != "") && time.Since(b.asked) > limitsAge {
		// They may be other ones by now.
		if info, err := describe(ctx, b.wire.session, b.sink.options.Stream); err == nil {
			b.describe(info)
			rejected, foreign = j.screen(b.limits, b.subjects)
		}
	}
	j.checked = b.asked
	switch {
	case len(rejected) > 0 && j.next > 0:
		// A limit was lowered meanwhile. A part is stored: it is read back.
		j.finish(fmt.Errorf("%w: a part is stored, and then %s", sink.ErrUnknownOutcome, rejected[0].Reason))
		return false
	case len(rejected) > 0:
		j.reject(rejected)
		return false
	case foreign != "" && j.next > 0:
		j.finish(fmt.Errorf("%w: a part is stored, and the stream does not take the subject %s any more", sink.ErrUnknownOutcome, foreign))
		return false
	case foreign != "":
		b.postpone(j, b.sink.options.Stream+" "+foreign, fmt.Errorf("the stream %s does not take the subject %s: add it to the stream's subjects", b.sink.options.Stream, foreign))
		return false
	}
	return true
}

// wire is what a worker uses of a session: an inbox for the answers to what it publishes.
type wire struct {
	*session
	inbox string
	sub   *nats.Subscription
	// acks has room for every answer that can be under way.
	acks  chan *nats.Msg
	since time.Time
	// denied holds the last refusal that belongs to no answer.
	denied chan error
}

// open subscribes an inbox. room is the number of messages that may wait for an answer.
func (s *session) open(room int) (*wire, error) {
	w := &wire{
		session: s, since: time.Now(), inbox: s.nc.NewInbox() + ".", acks: make(chan *nats.Msg, 4*room), denied: make(chan error, 1),
	}
	var err error
	if w.sub, err = s.nc.ChanSubscribe(w.inbox+"*", w.acks); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wires[w] = struct{}{}
	return w, nil
}

func (w *wire) close() {
	w.mu.Lock()
	delete(w.wires, w)
	w.mu.Unlock()
	// A connection that is gone has taken the subscription with it.
	_ = w.sub.Unsubscribe()
}

// reply is the subject for the answer to the message with this token.
func (w *wire) reply(token uint64) string {
	return string(strconv.AppendUint(append(make([]byte, 0, 48), w.inbox...), token, 10))
}

// token returns the number in the subject of an answer.
func (w *wire) token(subject string) (uint64, bool) {
	if len(subject) <= len(w.inbox) {
		return 0, false
	}
	n, err := strconv.ParseUint(subject[len(w.inbox):], 10, 64)
	return n, err == nil
}
