package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/sink"
)

const (
	// batchMessages is how many messages a server takes in an atomic batch.
	batchMessages = 1000
	// limitsAge is how old limits may be by which a message is refused.
	limitsAge = 100 * time.Millisecond
	// renewAgain is the pause behind a claim that could not be renewed.
	renewAgain = time.Second
)

// batcher publishes to Options.Stream in atomic batches, one after the other, each conditional on
// the claim of this process (decision 21). Its goroutine alone publishes.
type batcher struct {
	queue
	options *Options
	conns   *server.Connector
	fences  chan chan error
	// steps, when not nil, is told of each step of a batch: for tests.
	steps func(step string)

	// claimed is the sequence of the claim, 0 where this process has none: no stream ends before.
	claimed atomic.Uint64

	// What follows belongs to the goroutine of serve.

	claim  *claim
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
	// limits and config are those of the stream at the time asked; zero: ask again.
	limits limits
	config jetstream.StreamConfig
	asked  time.Time
	// fault names what keeps batches from being stored.
	fault string
	// batches and token count what was sent.
	batches, token uint64
	// explain has the next batch ask for an answer to each message. It is set behind a refusal.
	explain bool
	pause   backoff.Backoff
}

func newBatcher(options *Options, conns *server.Connector, faults *faults) *batcher {
	return &batcher{
		fault: options.Stream + " batches",
		queue: queue{stream: options.Stream, faults: faults, submit: make(chan *call)}, options: options, conns: conns,
		fences: make(chan chan error), claim: &claim{options: options, id: rand.Text()}, env: newEnvelope(), most: batchMessages, limit: batchMessages, taken: batchMessages,
		pause: backoff.Backoff{First: 2 * time.Millisecond, Max: time.Second},
	}
}

func (b *batcher) fence(ctx, life context.Context) error {
	done := make(chan error, 1)
	fences := b.fences
	for {
		select {
		case fences <- done:
			fences = nil
		case err := <-done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-life.Done():
			return sink.ErrClosed
		}
	}
}

func (b *batcher) serve(ctx context.Context) {
	defer func() {
		if b.wire != nil {
			b.wire.close()
		}
	}()
	for b.await(ctx) {
		if b.due || time.Since(b.looked) >= b.renewal() {
			b.renew(ctx)
			b.claimed.Store(b.claim.last())
		}
		if len(b.calls)+len(b.fenced) == 0 {
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
			for _, c := range b.calls {
				c.fail(err)
			}
		} else if list := b.pick(ctx); len(list) > 0 && !b.transmit(ctx, list) && b.pause.Wait(ctx) != nil {
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
	case c := <-b.submit:
		b.calls = append(b.calls, c)
	case done := <-b.fences:
		b.fenced = append(b.fenced, done)
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	for {
		select {
		case c := <-b.submit:
			b.calls = append(b.calls, c)
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
	for _, c := range b.calls {
		if c.fault == "" {
			return 0
		}
		wait = min(wait, max(0, c.until.Sub(now)))
	}
	return wait
}

// report notes that batches are refused, until one is stored.
func (b *batcher) report(err error) {
	if b.wire != nil && b.wire.Alive() {
		b.faults.Fail(b.fault, b.stream, err)
	}
}

// ready returns when there is a connection and the claim is held. The error is that of ctx, or says
// that the claim is lost.
func (b *batcher) ready(ctx context.Context) error {
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
		info, err := b.claim.acquire(ctx, b.wire.Session)
		switch {
		case err == nil:
			b.describe(info)
			b.faults.OK(b.stream)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, sink.ErrFenced):
			b.faults.OK(b.stream)
			return err
		case errors.Is(err, errOtherClaim):
			b.options.Logger.Debug("another claim was stored first", "stream", b.stream)
		case b.wire.Alive():
			select {
			case denied := <-b.wire.denied:
				if strings.Contains(denied.Error(), strconv.Quote(b.options.Claim)) {
					err = fmt.Errorf("publish to %s: grant the user the right to publish on it: %w", b.options.Claim, denied)
				}
			default:
			}
			b.faults.Fail(b.stream, b.stream, err)
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// connect returns when there is a connection, with an inbox for answers.
func (b *batcher) connect(ctx context.Context) error {
	for b.wire == nil || !b.wire.Alive() {
		if b.wire != nil {
			b.wire.close()
			b.wire = nil
		}
		s, err := b.conns.Get(ctx)
		if err != nil {
			return err
		}
		if b.wire, err = openWire(s, batchMessages); err != nil {
			// Only a connection that has just gone refuses a subscription.
			b.wire = nil
			continue
		}
		// It may be another stream by now.
		b.asked = time.Time{}
		b.options.Session(b.stream)
	}
	return nil
}

// pick returns the calls of the next batch, in the order of their coming. It ends those with
// messages that the stream does not take.
func (b *batcher) pick(ctx context.Context) (list []*call) {
	if err := b.refresh(ctx, 0); err != nil {
		b.report(err)
		// What ends the wait is seen by serve.
		_ = b.pause.Wait(ctx)
		return nil
	}
	now, n := time.Now(), 0
	for _, c := range b.calls {
		if b.claim.lost != nil {
			return nil
		}
		if c.fault != "" && now.Before(c.until) || !b.check(ctx, c) {
			continue
		}
		list = append(list, c)
		if n += c.limit - c.low; n >= b.most {
			break
		}
	}
	if b.claim.lost != nil {
		// The last check has found that out.
		return nil
	}
	return list
}

// refresh asks for the stream where that is due, or was longer ago than age.
func (b *batcher) refresh(ctx context.Context, age time.Duration) error {
	if !b.asked.IsZero() && (age == 0 || time.Since(b.asked) <= age) {
		return nil
	}
	info, err := server.Describe(ctx, b.wire.Session, b.stream)
	if err == nil {
		b.describe(info)
	}
	return err
}

// describe notes what the stream takes and keeps. It loses the claim where the stream is not the
// one that was claimed: another process may have a claim there with the same sequence.
func (b *batcher) describe(info *jetstream.StreamInfo) {
	b.config, b.asked = info.Config, time.Now()
	b.limits = limits{payload: b.wire.NC.MaxPayload(), message: int64(b.config.MaxMsgSize), condition: int64(len(b.options.Claim)), tooLong: b.wire.TooLong}
	// A batch alone must not push the claim out.
	b.limit = eighth(b.config.MaxMsgs, b.taken)
	b.most = min(b.most, b.limit)
	if c := b.claim; c.seq != 0 && c.lost == nil && c.ref.Incarnation != server.CreatedAt(info) {
		// It was made again since.
		c.lost = c.loss(nil)
	}
}

func (b *batcher) check(ctx context.Context, c *call) bool {
	rejected, foreign := c.refusals(b.limits), c.foreign(b.config.Subjects)
	if len(rejected) > 0 || foreign != "" {
		// They may be other ones by now. What does not answer is met again.
		if err := b.refresh(ctx, limitsAge); err == nil {
			rejected, foreign = c.refusals(b.limits), c.foreign(b.config.Subjects)
		}
	}
	switch {
	case len(rejected) > 0 && c.low > 0:
		// A limit was lowered meanwhile. A part is stored: it is read back.
		c.fail(fmt.Errorf("%w: a part is stored, and then %s", sink.ErrUnknownOutcome, rejected[0].Reason))
	case len(rejected) > 0:
		c.rejectAll(rejected)
	case foreign != "" && c.low > 0:
		c.fail(fmt.Errorf("%w: a part is stored, and the stream does not take the subject %s any more", sink.ErrUnknownOutcome, foreign))
	case foreign != "":
		b.postpone(c, b.stream+" "+foreign,
			fmt.Errorf("the stream %s does not take the subject %s: add it to the stream's subjects", b.stream, foreign))
	default:
		return true
	}
	return false
}

// eighth returns an eighth of a limit, from 1 to most; most where there is no limit.
func eighth(limit int64, most int) int {
	if limit <= 0 {
		return most
	}
	return int(min(max(limit/8, 1), int64(most)))
}

// renewal is how often it is looked whether the claim ages.
func (b *batcher) renewal() time.Duration {
	if b.config.MaxAge > 0 {
		return min(b.options.renewEvery, b.config.MaxAge/8)
	}
	return b.options.renewEvery
}

// renew makes a new claim where retention may remove ours before long. What keeps it from that is
// met again by the next batch, or by the next renewal, which comes soon.
func (b *batcher) renew(ctx context.Context) {
	b.due, b.looked = false, time.Now()
	if !b.claim.held() || b.wire == nil || !b.wire.Alive() {
		return
	}
	info, err := server.Describe(ctx, b.wire.Session, b.stream)
	if err == nil && b.claim.ages(info) {
		info, err = b.claim.acquire(ctx, b.wire.Session)
	}
	if err != nil {
		b.looked = time.Now().Add(min(renewAgain, b.renewal()) - b.renewal())
		b.options.Logger.Debug("the claim was not renewed", "stream", b.stream, "error", err)
		return
	}
	b.seen, b.fresh = info.State.LastSeq, 0
	b.describe(info)
}

func (b *batcher) step(at string) {
	if b.steps != nil {
		b.steps(at)
	}
}
