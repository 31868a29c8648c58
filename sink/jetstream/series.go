package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"example.org/bridge/sink"
)

const (
	// windowMessages and windowBytes bound what is on the way to one stream without an
	// acknowledgement; a single message may be larger.
	windowMessages = 1000
	windowBytes    = 8 << 20
	// ackWait is how long the worker waits for any answer before it takes the messages under way
	// for lost.
	ackWait = 5 * time.Second
	// seriesFor is how long a series may last: a stream that is given replicas must not be sent
	// fences for long, and one that was created again is to be noticed.
	seriesFor = 30 * time.Second
	// answersPerWindow is how many answers are asked for while a window is sent with fences.
	answersPerWindow = 8
)

var errNoAnswer = errors.New("no acknowledgement within " + ackWait.String())

type inFlight struct {
	call  *call
	index int
	// id is the one by which the stream drops repeats.
	id   string
	size int
	// key is the message's order key while the series is unfenced.
	key string
	// predicted is the sequence that the message gets if it is stored at all. Only in a fenced
	// series.
	predicted uint64
	// first: as far as this call can have brought it about, the message is not on the stream.
	first bool
	// silent: the message asks for no answer; that of a later message tells.
	silent bool
	state  flightState
	// answer is the refusal.
	answer ack
}

type flightState uint8

const (
	waiting flightState = iota
	stored
	refused
)

// series is an uninterrupted run of messages on one wire. It ends at its first refusal, loss or
// timeout; what is not acknowledged then is sent again by the next series.
type series struct {
	*worker
	wire *wire
	// fenced: each message names the one before it as a condition. Else the worker keeps one
	// message a key under way.
	fenced bool
	// limits hold as they were when the series began.
	limits limits
	begun  time.Time

	// flights holds those with the tokens from head to tail, at token modulo its length.
	flights    []inFlight
	head, tail uint64
	// waiting are under way and will be answered, silent those that ask for no answer. bytes is the
	// size of both.
	waiting, silent, bytes int
	// unacked counts the messages sent since one asked for an answer, unackedBytes is their size.
	unacked, unackedBytes int
	// window is how many messages may be under way. It begins at 1 and grows with each
	// acknowledgement.
	window int
	// busy has the order keys under way of an unfenced series.
	busy map[string]struct{}
	// last and lastID are what the stream ends with when all that is under way has been stored.
	last   uint64
	lastID string

	// over: nothing more is sent in this series.
	over bool
	// broken: a message was refused, by its fence where rejected, or is a repeat.
	broken, rejected bool
	// moved: the series ends to change over to a fenced one.
	moved bool
	// heard is when the last answer came, or the first of those under way was sent.
	heard time.Time
	// err is why messages that have no answer are given up, stray why an answer does not count.
	err, stray error
}

// run sends and takes answers until the series is over and everything under way is answered, or the
// connection goes, or no answer comes any more.
func (r *series) run(ctx context.Context) {
	timer := time.NewTimer(ackWait)
	defer timer.Stop()
	for {
		now := time.Now()
		for len(r.wire.acks) > 0 {
			r.answered(<-r.wire.acks, now)
		}
		r.prune()
		more, wake := false, time.Time{}
		if !r.over {
			if more, wake = r.send(now); more {
				continue
			}
		}
		switch {
		case r.waiting == 0 && (r.over || r.silent > 0):
			// The call whose message would ask for an answer was cancelled, where some are silent.
			return
		case r.waiting > 0 && now.Sub(r.heard) >= ackWait:
			// A connection that does not answer to a ping either is given up with them.
			r.err = cmp.Or(r.stray, errNoAnswer)
			if err := r.wire.NC.FlushTimeout(2 * time.Second); err != nil {
				r.wire.Drop(fmt.Errorf("the server answers neither to messages nor to a ping: %w", err))
			}
			return
		case r.waiting > 0 && (wake.IsZero() || r.heard.Add(ackWait).Before(wake)):
			wake = r.heard.Add(ackWait)
		}
		var alarm <-chan time.Time
		if !wake.IsZero() {
			timer.Reset(max(0, time.Until(wake)))
			alarm = timer.C
		}
		select {
		case m := <-r.wire.acks:
			r.answered(m, time.Now())
		case c := <-r.submit:
			// The next series looks at limits that refuse a message: they may be higher now.
			r.calls = append(r.calls, c)
			r.over = r.over || time.Since(r.begun) > seriesFor || len(c.refusals(r.limits)) > 0
		case err := <-r.wire.denied:
			r.deny(err, time.Now())
		case <-alarm:
		case <-r.wire.Gone:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (r *series) at(token uint64) *inFlight { return &r.flights[token%uint64(len(r.flights))] }

// send publishes up to a burst of messages and reports whether there may be more to send now. wake
// is when the first of the calls that are held up is to be tried again.
func (r *series) send(now time.Time) (more bool, wake time.Time) {
	const burst = 128
	n := 0
	for _, c := range r.calls {
		if c.fault != "" && now.Before(c.until) {
			if wake.IsZero() || c.until.Before(wake) {
				wake = c.until
			}
			continue
		}
		for {
			sent, mustWait := r.sendOne(c, now)
			if mustWait || r.over {
				return false, wake
			}
			if !sent {
				break
			}
			if n++; n == burst {
				return true, wake
			}
			if c.fault != "" {
				// What was refused is tried alone.
				break
			}
		}
	}
	return false, wake
}

// sendOne publishes the next message of c. mustWait says that the series has no room for it yet, or
// that its key is under way.
func (r *series) sendOne(c *call, now time.Time) (sent, mustWait bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.next < c.limit && c.out.Status[c.next] != sink.Pending {
		c.next++
	}
	if c.batch == nil || c.next >= c.limit || c.fault != "" && c.open > 0 {
		return false, false
	}
	m := &c.batch[c.next]
	f := inFlight{call: c, index: c.next, id: m.DedupID(), size: len(m.Value) + 512, predicted: r.last + 1, first: c.next >= c.unsure}
	if n := int(r.tail - r.head); n > 0 && (n >= min(r.window, len(r.flights)) || r.bytes+f.size > windowBytes) {
		return false, true
	}
	if !r.fenced {
		// Invariant 3: without a fence, a message waits for the one before it about the same
		// entity, whatever its type and so its subject.
		f.key = m.Stream + "\x00" + string(m.Key)
		if _, taken := r.busy[f.key]; taken {
			return false, true
		}
		r.busy[f.key] = struct{}{}
	}
	c.next++
	c.open++
	r.launch(c, f, now)
	return true, false
}

// launch publishes the message of f. c.mu is held, so the batch stays.
func (r *series) launch(c *call, f inFlight, now time.Time) {
	// In a fenced series an answer speaks for all before it, and each costs both sides as much as a
	// message. The last of a call always asks, and so does what was refused before.
	pending := slices.Contains(c.out.Status[min(c.next, c.limit):c.limit], sink.Pending)
	f.silent = r.fenced && c.fault == "" && pending &&
		(r.unacked+1)*answersPerWindow < r.window && (r.unackedBytes+f.size)*answersPerWindow < windowBytes
	token, reply := r.tail, ""
	if f.silent {
		r.silent++
		r.unacked, r.unackedBytes = r.unacked+1, r.unackedBytes+f.size
	} else {
		if r.waiting++; r.waiting == 1 {
			r.heard = now
		}
		reply = r.wire.reply(token)
		r.unacked, r.unackedBytes = 0, 0
	}
	m := r.env.fill(&c.batch[f.index], reply)
	r.env.set(headerMsgID, f.id)
	if !r.fenced || r.lastID == "" {
		r.env.set(headerStream, r.stream)
	}
	if r.fenced {
		r.env.set(headerLastSequence, r.env.headers.Number(r.last))
		if r.lastID != "" {
			r.env.set(headerLastID, r.lastID)
		}
	}
	*r.at(token) = f
	r.tail++
	r.bytes += f.size
	r.last, r.lastID = r.last+1, f.id
	if err := r.wire.publish(m); err != nil {
		// Nothing of it will be heard; what comes before it may still be answered.
		r.refuse(token, ack{err: err, unsure: true})
	}
}

func (r *series) answered(m *nats.Msg, now time.Time) {
	token, ok := r.wire.token(m.Subject)
	if !ok || token < r.head || token >= r.tail || r.at(token).state != waiting {
		return
	}
	f, a := r.at(token), parseAck(m)
	if stray := a.stray(r.options); stray != nil {
		r.stray = stray
		return
	}
	r.heard = now
	switch {
	case a.err != nil:
		r.refuse(token, a)
		return
	case a.stream != r.stream:
		r.refuse(token, ack{err: fmt.Errorf("the subject belongs to the stream %s, not to %s", a.stream, r.stream)})
		return
	}
	if r.fenced && !a.duplicate && a.seq == f.predicted {
		// Its fence was open, so all that was sent before it is stored, too, each at its sequence.
		for before := r.head; before < token; before++ {
			if f := r.at(before); f.state == waiting {
				r.noteStored(f, ack{seq: f.predicted})
			}
		}
	}
	r.noteStored(f, a)
	switch {
	case !a.duplicate && a.seq <= r.base:
		// It is not the stream that the series began with.
		r.over = true
	case !r.fenced:
		if r.cleared(a, now) {
			r.moved, r.over = true, true
		}
	case a.duplicate:
		// It was not stored now, so what follows it finds its fence shut.
		r.broken, r.over = true, true
	case a.seq != f.predicted:
		r.over = true
	}
	for r.head < r.tail && r.at(r.head).state == stored {
		*r.at(r.head) = inFlight{state: stored}
		r.head++
	}
}

func (r *series) noteStored(f *inFlight, a ack) {
	r.close(f, stored)
	r.window = min(r.window+1, len(r.flights))
	f.call.acked(f.index, a, r.ref, f.first)
	f.call.answered(1)
	r.progress(f.call)
}

// refuse notes that a message was not stored. The end of the series tells the call, which is locked
// in launch.
func (r *series) refuse(token uint64, a ack) {
	f := r.at(token)
	r.close(f, refused)
	f.answer = a
	r.over, r.broken, r.rejected = true, true, r.rejected || a.fenceBroken()
}

// close takes f off the window.
func (r *series) close(f *inFlight, state flightState) {
	f.state = state
	if f.silent {
		r.silent--
	} else {
		r.waiting--
	}
	r.bytes -= f.size
	if f.key != "" {
		delete(r.busy, f.key)
	}
}

// deny takes a refusal that belongs to no answer for that of the first message under way to the
// subject it names.
func (r *series) deny(err error, now time.Time) {
	for token := r.head; token < r.tail; token++ {
		f := r.at(token)
		if f.state != waiting {
			continue
		}
		if subject, _ := f.call.message(f.index); subject != "" && strings.Contains(err.Error(), strconv.Quote(subject)) {
			r.heard = now
			// A later message may have been meant.
			r.refuse(token, ack{err: fmt.Errorf("grant the user the right to publish on it: %w", err), unsure: true})
			return
		}
	}
}

// end ends the series: what was not stored is left for the next one, and the first of that decides
// what happens until then.
func (r *series) end() {
	r.token = r.tail
	var cause *inFlight
	certain := true
	for token := r.head; token < r.tail; token++ {
		f := r.at(token)
		if f.state == stored {
			continue
		}
		// After a refused message no fence can have opened.
		if certain = certain && f.state == waiting; certain && r.fenced {
			r.suspects = append(r.suspects, *f)
		}
		if cause == nil {
			cause = f
		}
		// What asked for no answer was on the stream before a fence that refused said so, or is
		// not.
		refused := f.silent && r.rejected && r.err == nil && r.wire.Alive()
		if f.call.next = min(f.call.next, f.index); f.state == waiting && !refused || f.answer.unsure {
			f.call.unsure = max(f.call.unsure, f.index+1)
		}
		f.call.answered(1)
	}
	r.worker.ended(r)
	if cause != nil {
		r.blame(cause)
	}
	clear(r.flights)
	r.prune()
}

// blame draws the conclusions from the first message that was not stored.
func (r *series) blame(f *inFlight) {
	subject, size := f.call.message(f.index)
	err := f.answer.err
	switch {
	case f.state == waiting:
		err = r.err
	case f.answer.code == codeExceedsMaximum || f.answer.code == codeHeaderTooLarge:
		f.call.reject(sink.Rejection{Index: f.index, Reason: fmt.Sprintf("%d bytes with its headers are more than the stream %s takes (max_msg_size %d when last read): %v",
			size, r.stream, r.limits.message, err)})
		return
	case f.answer.fenceBroken():
		return
	case r.wire.Alive() && r.options.Stream == "" && (f.answer.code == codeStreamMismatch || errors.Is(err, errNoStream)):
		f.call.fail(errMoved)
		return
	}
	if err != nil && subject != "" && r.wire.Alive() {
		r.postpone(f.call, r.stream+" "+subject, fmt.Errorf("publish to %s: %w", subject, err))
	}
}
