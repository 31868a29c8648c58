package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"example.org/bridge/sink"
)

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

// transmit returns false where nothing is stored, and the same is to be sent again.
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
	if err := b.wire.publish(t.commit); err != nil {
		t.unknown(err)
		return true
	}
	a, err := t.answer(ctx)
	b.step("TransactionEnded")
	if a.code == codeBatchTooLarge {
		// Servers may take smaller ones only.
		b.taken = max(1, t.n/2)
		b.limit = min(b.limit, b.taken)
		b.most = b.limit
	}
	switch {
	case ctx.Err() != nil:
		t.end(sink.ErrClosed)
	case err != nil:
		t.unknown(err)
	case a.err == nil && (a.stream != b.stream || max(a.count, 1) != t.n || a.duplicate):
		t.unknown(errOtherAnswer)
	case a.err == nil:
		t.stored(a.seq)
	case t.options.JetStreamDomain == "" && (a.notStored() || t.n == 1 && a.full()):
		// Behind a leaf node two domains may answer, and a refusal does not say which did.
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

// stage sends all messages but the last one. The callers stay meanwhile.
func (t *atomicBatch) stage(list []*call) error {
	most := eighth(t.config.MaxBytes, windowBytes)
	for _, c := range list {
		c.mu.Lock()
		defer c.mu.Unlock()
		p := share{call: c}
		for i := c.low; c.batch != nil && i < c.limit && t.n < t.most; i++ {
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
		return t.wire.publish(out)
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
	unanswered := errNoAnswer
	for {
		select {
		case m := <-t.wire.acks:
			token, ok := t.wire.token(m.Subject)
			switch a := parseAck(m); {
			case !ok || token < t.first || token >= t.first+uint64(t.n):
			case a.stray(t.options) != nil:
				unanswered = a.stray(t.options)
			case token == t.first+uint64(t.n-1):
				return a, nil
			case t.why == nil && (len(m.Data) > 0 || m.Header.Get("Status") != ""):
				if a.err != nil {
					t.why, t.culprit = a.err, int(token-t.first)
				}
			}
		case err := <-t.wire.denied:
			t.deny(err)
		case <-timer.C:
			if err := t.wire.NC.FlushTimeout(2 * time.Second); err != nil {
				t.wire.Drop(fmt.Errorf("the server answers neither to messages nor to a ping: %w", err))
			}
			return ack{}, unanswered
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
	b.faults.OK(b.fault)
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

func (t *atomicBatch) end(err error) {
	for _, p := range t.parts {
		p.fail(err)
		p.answered(p.count)
	}
}
