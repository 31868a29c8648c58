package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/sink"

	"github.com/nats-io/nats.go"
)

// Errors of a batch that has no answer.
var (
	errConnectionLost = errors.New("the connection was lost before the answer")
	errOtherAnswer    = errors.New("the answer is not that of the batch")
)

// atomicBatch is a batch on its way. It is answered as a whole. A single message has the condition
// alone: for each batch of a stream with one replica the server syncs a folder.
type atomicBatch struct {
	b     *batcher
	w     *wire
	id    string
	parts []share
	// n is the number of messages, bytes about their size, and first the token of the first one.
	n, bytes int
	first    uint64
	// commit is the last message.
	commit *nats.Msg
	// why is the first refusal of a message before the last one, and culprit its index, -1 without
	// one.
	why     error
	culprit int
}

// share is what a job has in a batch.
type share struct {
	job   *job
	count int
}

// transmit sends a batch of messages of jobs, and notes what became of it. It returns false where
// nothing is stored, and the same is to be sent again.
func (b *batcher) transmit(ctx context.Context, list []*job) (done bool) {
	b.step("TransactionAdded")
	t := &atomicBatch{b: b, w: b.wire, id: b.claim.id + strconv.FormatUint(b.batches, 36), first: b.token, culprit: -1}
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
	if err := t.w.nc.PublishMsg(t.commit); err != nil {
		t.unknown(err)
		return true
	}
	a, err := t.await(ctx)
	b.step("TransactionEnded")
	switch {
	case ctx.Err() != nil:
		t.finish(sink.ErrClosed)
	case err != nil:
		t.unknown(err)
	case a.err == nil && (a.stream != b.sink.options.Stream || max(a.count, 1) != t.n || a.duplicate):
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
	case a.full():
		// One message at a time is stored where there is room for it, and refused without a doubt.
		b.most = 1
		t.unknown(a.err)
	default:
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
func (t *atomicBatch) stage(list []*job) error {
	for _, j := range list {
		j.mu.Lock()
		defer j.mu.Unlock()
	}
	for _, j := range list {
		if j.over() {
			continue
		}
		p := share{job: j}
		for i := j.next; i < j.n && t.n < t.b.most; i++ {
			size := len(j.messages[i].Value) + 1024
			if t.n > 0 && t.bytes+size > t.b.batchBytes() {
				break
			}
			t.bytes += size
			p.count, t.n = p.count+1, t.n+1
		}
		if p.count > 0 {
			j.sent = true
			t.parts = append(t.parts, p)
		}
	}
	t.b.token += uint64(t.n)
	at := 0
	for _, p := range t.parts {
		for i := range p.count {
			at++
			if err := t.send(&p.job.messages[p.job.next+i], at); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends the message with a number, 1 for the first one; the last one it keeps.
func (t *atomicBatch) send(m *sink.Message, number int) error {
	f := fence{number: number}
	if t.n > 1 {
		f.batch = t.id
	}
	if number == 1 {
		f.stream = t.b.sink.options.Stream
		f.subject, f.subjectLast = t.b.sink.options.Claim, t.b.claim.seq
	}
	last, reply := number == t.n, ""
	if last || t.b.explain {
		reply = t.w.reply(t.first + uint64(number-1))
	}
	f.commit = last
	out := t.b.env.fill(m, reply, f)
	if !last {
		return t.w.nc.PublishMsg(out)
	}
	t.commit = &nats.Msg{Subject: out.Subject, Reply: out.Reply, Header: make(nats.Header, len(out.Header)), Data: bytes.Clone(out.Data)}
	for name, values := range maps.All(out.Header) {
		t.commit.Header[name] = []string{values[0]}
	}
	return nil
}

// await waits for the answer to the last message. The error says why there is none.
func (t *atomicBatch) await(ctx context.Context) (a ack, err error) {
	timer := time.NewTimer(ackWait)
	defer timer.Stop()
	for {
		select {
		case m := <-t.w.acks:
			token, ok := t.w.token(m.Subject)
			switch {
			case !ok || token < t.first || token >= t.first+uint64(t.n):
			case token == t.first+uint64(t.n-1):
				return parseAck(m, t.b.sink.options.Stream), nil
			case t.why == nil && (len(m.Data) > 0 || m.Header.Get("Status") != ""):
				if a := parseAck(m, t.b.sink.options.Stream); a.err != nil {
					t.why, t.culprit = a.err, int(token-t.first)
				}
			}
		case err := <-t.w.denied:
			t.deny(err)
		case <-timer.C:
			if err := t.w.nc.FlushTimeout(2 * time.Second); err != nil {
				t.w.drop(fmt.Errorf("the server answers neither to messages nor to a ping: %w", err))
			}
			return ack{}, errNoAnswer
		case <-t.w.gone:
			return ack{}, errConnectionLost
		case <-ctx.Done():
			return ack{}, context.Cause(ctx)
		}
	}
}

// deny notes a refusal of the server that belongs to no answer. It may be that of a former batch,
// so it proves nothing.
func (t *atomicBatch) deny(err error) {
	if t.why != nil {
		return
	}
	at := 0
	for _, p := range t.parts {
		p.job.mu.Lock()
		for i := 0; i < p.count && p.job.messages != nil; i++ {
			if subject := p.job.messages[p.job.next+i].Destination; strings.Contains(err.Error(), strconv.Quote(subject)) {
				t.why, t.culprit = fmt.Errorf("publish to %s: grant the user the right to publish on it: %w", subject, err), at+i
				break
			}
		}
		p.job.mu.Unlock()
		at += p.count
	}
}

// stored notes that the batch is stored, its last message at a sequence.
func (t *atomicBatch) stored(last uint64) {
	b := t.b
	first := last - uint64(t.n) + 1
	for _, p := range t.parts {
		p.job.stored(p.count, first, b.claim.ref)
		first += uint64(p.count)
		b.release(p.job)
		p.job.pause.Reset()
	}
	b.grown(last, t.bytes)
	b.sink.faults.end(b.fault())
	b.explain = false
	b.pause.Reset()
}

// refused notes that nothing of the batch is stored.
func (t *atomicBatch) refused(err error) {
	b := t.b
	// The stream may take other messages by now.
	b.asked = time.Time{}
	at := t.culprit
	for _, p := range t.parts {
		p.job.unsent()
		switch {
		case at < 0 || at >= p.count:
		case p.job.next > 0:
			// Others may wait for the outcome of the part that is stored.
			p.job.finish(fmt.Errorf("%w: a part is stored, and then %w", sink.ErrUnknownOutcome, t.why))
		default:
			b.postpone(p.job, b.sink.options.Stream+" refuses a message", t.why)
		}
		at -= p.count
	}
	if b.explain && t.culprit < 0 {
		b.fail(err)
	}
	b.explain = t.culprit < 0
}

// unknown notes that the batch may be stored or not: a new claim shuts it out, and what is there is
// read back.
func (t *atomicBatch) unknown(err error) {
	if t.why != nil {
		err = t.why
	}
	t.b.claim.doubtful, t.b.explain = true, false
	t.b.fail(err)
	t.finish(fmt.Errorf("%w: %w", sink.ErrUnknownOutcome, err))
}

// finish ends the jobs of the batch.
func (t *atomicBatch) finish(err error) {
	for _, p := range t.parts {
		p.job.finish(err)
	}
}
