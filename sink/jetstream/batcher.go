package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
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
	conns   *connector
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
	// batches and token count what was sent.
	batches, token uint64
	// explain has the next batch ask for an answer to each message. It is set behind a refusal.
	explain bool
	pause   backoff.Backoff
}

func newBatcher(options *Options, conns *connector, faults *faults) *batcher {
	return &batcher{
		queue: queue{stream: options.Stream, faults: faults, submit: make(chan *call)}, options: options, conns: conns,
		fences: make(chan chan error), claim: newClaim(options), env: newEnvelope(), most: batchMessages, limit: batchMessages, taken: batchMessages,
		pause: backoff.Backoff{First: 2 * time.Millisecond, Max: time.Second},
	}
}

// fence is Sink.Fence.
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

// serve publishes what is submitted until ctx ends.
func (b *batcher) serve(ctx context.Context) {
	defer b.disconnect()
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
		b.faults.Fail(b.fault(), b.stream, err)
	}
}

// fault names what keeps batches from being stored.
func (b *batcher) fault() string { return b.stream + " batches" }

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
		info, err := b.claim.acquire(ctx, b.wire.session)
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
		b.disconnect()
		s, err := b.conns.get(ctx)
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
		b.options.Session(b.stream)
	}
	return nil
}

func (b *batcher) disconnect() {
	if b.wire != nil {
		b.wire.close()
		b.wire = nil
	}
}

// pick returns the calls of the next batch, in the order of their coming. It ends those with
// messages that the stream does not take.
func (b *batcher) pick(ctx context.Context) (list []*call) {
	err := b.refresh(ctx, 0)
	if err == nil {
		b.limits.line, err = b.wire.lines.limit(ctx, b.calls...)
	}
	if err != nil {
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
	b.limits = limits{payload: b.wire.NC.MaxPayload(), message: int64(b.config.MaxMsgSize), condition: int64(len(b.options.Claim)),
		line: b.limits.line}
	// A batch alone must not push the claim out.
	b.limit = eighth(b.config.MaxMsgs, b.taken)
	b.most = min(b.most, b.limit)
	b.claim.compare(info)
}

// check reports whether the stream takes the messages of a call.
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
		info, err = b.claim.acquire(ctx, b.wire.session)
	}
	if err != nil {
		b.looked = time.Now().Add(min(renewAgain, b.renewal()) - b.renewal())
		b.options.Logger.Debug("the claim was not renewed", "stream", b.stream, "error", err)
		return
	}
	b.seen, b.fresh = info.State.LastSeq, 0
	b.describe(info)
}

// Errors of a batch that has no answer.
var (
	errConnectionLost = errors.New("the connection was lost before the answer")
	errOtherAnswer    = errors.New("the answer is not that of the batch")
)

// atomicBatch is a batch on its way. It is answered as a whole. A single message has the condition
// alone: for each batch of a stream with one replica the server syncs a folder.
type atomicBatch struct {
	*batcher
	id    string
	parts []share
	// n is the number of messages, size about their bytes, and first the token of the first one.
	n, size int
	first   uint64
	// commit is the last message.
	commit *nats.Msg
	// why is the first refusal of a message before the last one, and culprit its index, -1 without
	// one.
	why     error
	culprit int
}

// share is what a call has in a batch: so many messages from its first one that is not stored.
type share struct {
	*call
	count int
}

// transmit sends a batch of messages of calls, and notes what became of it. It returns false where
// nothing is stored, and the same is to be sent again.
func (b *batcher) transmit(ctx context.Context, list []*call) (done bool) {
	b.step("TransactionAdded")
	t := &atomicBatch{batcher: b, id: b.claim.id + strconv.FormatUint(b.batches, 36), first: b.token, culprit: -1}
	b.batches++
	err := t.stage(list)
	if t.n == 0 {
		return true
	}
	if err != nil {
		// Without its last message nothing is stored.
		t.refused(err)
		return false
	}
	b.step("TransactionSent")
	b.step("TransactionEnds")
	if err := b.wire.NC.PublishMsg(t.commit); err != nil {
		t.unknown(err)
		return true
	}
	a, err := t.answer(ctx)
	b.step("TransactionEnded")
	switch {
	case ctx.Err() != nil:
		t.end(sink.ErrClosed)
	case err != nil:
		t.unknown(err)
	case a.err == nil && (a.stream != b.stream || max(a.count, 1) != t.n || a.duplicate):
		t.unknown(errOtherAnswer)
	case a.err == nil:
		t.stored(a.seq)
	case a.notStored(), t.n == 1 && a.full():
		if a.code == codeBatchTooLarge {
			// Servers may take smaller ones only.
			b.taken = max(1, t.n/2)
			b.limit = min(b.limit, b.taken)
			b.most = b.limit
		}
		t.refused(a.err)
		return false
	default:
		if a.full() {
			// One message alone is stored where there is room for it, and refused without a doubt.
			b.most = 1
		}
		t.unknown(a.err)
	}
	return true
}

// step passes a point of a batch.
func (b *batcher) step(at string) {
	if b.steps != nil {
		b.steps(at)
	}
}

// stage sends all messages but the last one. The callers stay meanwhile.
func (t *atomicBatch) stage(list []*call) error {
	most := eighth(t.config.MaxBytes, t.options.WindowBytes)
	for _, c := range list {
		c.mu.Lock()
		defer c.mu.Unlock()
		p := share{call: c}
		for i := c.low; !c.stopped && i < c.limit && t.n < t.most; i++ {
			size := len(c.batch[i].Value) + 1024
			if t.n > 0 && t.size+size > most {
				break
			}
			t.size += size
			p.count, t.n = p.count+1, t.n+1
		}
		if p.count > 0 {
			c.open = p.count
			t.parts = append(t.parts, p)
		}
	}
	t.token += uint64(t.n)
	number := 0
	for _, p := range t.parts {
		for i := range p.count {
			number++
			if err := t.send(&p.batch[p.low+i], number); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends the message with a number, 1 for the first one; the last one it keeps.
func (t *atomicBatch) send(m *sink.Message, number int) error {
	last, reply := number == t.n, ""
	if last || t.explain {
		reply = t.wire.reply(t.first + uint64(number-1))
	}
	out := t.env.fill(m, reply)
	if number == 1 {
		t.env.set(headerStream, t.stream)
		t.env.set(headerSubjectOfSequence, t.options.Claim)
		t.env.set(headerLastSubjectSequence, strconv.FormatUint(t.claim.seq, 10))
	}
	if t.n > 1 {
		t.env.set(headerBatchID, t.id)
		t.env.set(headerBatchSequence, strconv.Itoa(number))
		if last {
			t.env.set(headerBatchCommit, "1")
		}
	}
	if !last {
		return t.wire.NC.PublishMsg(out)
	}
	t.commit = &nats.Msg{Subject: out.Subject, Reply: out.Reply, Header: make(nats.Header, len(out.Header)), Data: bytes.Clone(out.Data)}
	for name, values := range out.Header {
		t.commit.Header[name] = []string{values[0]}
	}
	return nil
}

// answer waits for the answer to the last message. The error says why there is none.
func (t *atomicBatch) answer(ctx context.Context) (a ack, err error) {
	timer := time.NewTimer(ackWait)
	defer timer.Stop()
	for {
		select {
		case m := <-t.wire.acks:
			token, ok := t.wire.token(m.Subject)
			switch {
			case !ok || token < t.first || token >= t.first+uint64(t.n):
			case token == t.first+uint64(t.n-1):
				return parseAck(m), nil
			case t.why == nil && (len(m.Data) > 0 || m.Header.Get("Status") != ""):
				if a := parseAck(m); a.err != nil {
					t.why, t.culprit = a.err, int(token-t.first)
				}
			}
		case err := <-t.wire.denied:
			t.deny(err)
		case <-timer.C:
			if err := t.wire.NC.FlushTimeout(2 * time.Second); err != nil {
				t.wire.Drop(fmt.Errorf("the server answers neither to messages nor to a ping: %w", err))
			}
			return ack{}, errNoAnswer
		case <-t.wire.Gone:
			return ack{}, errConnectionLost
		case <-ctx.Done():
			return ack{}, context.Cause(ctx)
		}
	}
}

// deny notes a refusal of the server that belongs to no answer. It may be that of a former batch,
// so it proves nothing.
func (t *atomicBatch) deny(err error) {
	at := 0
	for _, p := range t.parts {
		for i := range p.count {
			subject, _ := p.message(p.low + i)
			if t.why == nil && subject != "" && strings.Contains(err.Error(), strconv.Quote(subject)) {
				t.why, t.culprit = fmt.Errorf("publish to %s: grant the user the right to publish on it: %w", subject, err), at+i
			}
		}
		at += p.count
	}
}

// stored notes that the batch is stored, its last message at a sequence. The claim is looked at
// where a quarter of what the stream keeps has come since.
func (t *atomicBatch) stored(last uint64) {
	b := t.batcher
	seq := last - uint64(t.n)
	for _, p := range t.parts {
		for range p.count {
			seq++
			p.acked(p.low, ack{seq: seq}, b.claim.ref, false)
		}
		b.release(p.call, false)
		p.pause.Reset()
		p.answered(p.count)
	}
	b.fresh += int64(t.size)
	b.due = b.config.MaxMsgs > 0 && int64(last-max(b.seen, b.claim.seq)) >= b.config.MaxMsgs/4 ||
		b.config.MaxBytes > 0 && b.fresh >= b.config.MaxBytes/4
	b.most = min(b.limit, 2*b.most)
	b.faults.OK(b.fault())
	b.explain = false
	b.pause.Reset()
}

// refused notes that nothing of the batch is stored.
func (t *atomicBatch) refused(err error) {
	b := t.batcher
	// The stream may take other messages by now.
	b.asked = time.Time{}
	at := t.culprit
	for _, p := range t.parts {
		switch {
		case at < 0 || at >= p.count:
		case p.low > 0:
			// Others may wait for the outcome of the part that is stored.
			p.fail(fmt.Errorf("%w: a part is stored, and then %w", sink.ErrUnknownOutcome, t.why))
		default:
			b.postpone(p.call, b.stream+" refuses a message", t.why)
		}
		p.answered(p.count)
		at -= p.count
	}
	if b.explain && t.culprit < 0 {
		b.report(err)
	}
	b.explain = t.culprit < 0
}

// unknown notes that the batch may be stored or not: a new claim shuts it out, and what is there is
// read back.
func (t *atomicBatch) unknown(err error) {
	if t.why != nil {
		err = t.why
	}
	t.claim.doubtful, t.explain = true, false
	t.report(err)
	t.end(fmt.Errorf("%w: %w", sink.ErrUnknownOutcome, err))
}

// end ends the calls of the batch.
func (t *atomicBatch) end(err error) {
	for _, p := range t.parts {
		p.fail(err)
		p.answered(p.count)
	}
}
