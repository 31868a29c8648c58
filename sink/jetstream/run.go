package jetstream

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bridge/sink"
)

// ackWait is how long the lane waits for any answer before it takes the messages under way for lost.
const ackWait = 5 * time.Second

// flight is one message on its way.
type flight struct {
	call  *call
	index int
	id    string
	size  int
	// key is the message's order key while the run is unfenced.
	key string
	// predicted is the sequence that the message gets if it is stored at all. Only in a fenced run.
	predicted uint64
	// first: as far as this call can have brought it about, the message is not on the stream.
	first bool
	state flightState
	// answer is the refusal.
	answer ack
}

type flightState uint8

const (
	waiting flightState = iota
	stored
	refused
)

// run is one uninterrupted series of messages on one wire. It ends at its first refusal, loss or timeout; what is not
// acknowledged then is sent again by the next run.
type run struct {
	lane *lane
	wire *wire
	// fenced: each message names the one before it as a condition. Else the lane keeps one message a key under way.
	fenced bool
	// limits hold as they were at the time asked.
	limits limits
	asked  time.Time

	// flights holds those with the tokens from head to tail, at token modulo its length.
	flights    []flight
	head, tail uint64
	waiting    int
	bytes      int
	// window is how many messages may be under way. It begins at 1 and grows with each acknowledgement.
	window int
	// busy has the order keys under way of an unfenced run.
	busy map[string]struct{}

	// last and lastID are what the stream ends with when all that is under way has been stored.
	last   uint64
	lastID string

	// over: nothing more is sent in this run.
	over bool
	// sawDup: the run ended because a message was a repeat.
	sawDup bool
	// moved: the run ends to change over to a fenced one.
	moved bool
	// stored counts the messages that this run has stored.
	stored int
	// heard is when the last answer came, or the first of those under way was sent.
	heard time.Time
	// err is why messages that have no answer are given up.
	err error
}

func (r *run) flight(token uint64) *flight { return &r.flights[token%uint64(len(r.flights))] }

// room reports whether one more message of this size may be under way.
func (r *run) room(size int) bool {
	n := int(r.tail - r.head)
	return n == 0 || n < min(r.window, len(r.flights)) && r.bytes+size <= r.lane.options.WindowBytes
}

// send publishes up to a burst of messages and reports whether there may be more to send now. wake is when the first of the
// calls that are held up is to be tried again.
func (r *run) send(now time.Time) (more bool, wake time.Time) {
	const burst = 128
	n := 0
	for _, c := range r.lane.calls {
		if c.fault != "" && now.Before(c.until) {
			if wake.IsZero() || c.until.Before(wake) {
				wake = c.until
			}
			continue
		}
		for {
			sent, blocked := r.sendOne(c, now)
			if blocked || r.over {
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

// sendOne publishes the next message of c. blocked says that the run has no room for it yet.
func (r *run) sendOne(c *call, now time.Time) (sent, blocked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.next < c.limit && c.status[c.next] != sink.Pending {
		c.next++
	}
	if c.stopped || c.next >= c.limit || c.fault != "" && c.open > 0 {
		return false, false
	}
	m := &c.batch[c.next]
	size := len(m.Value) + 512
	if !r.room(size) {
		return false, true
	}
	key := ""
	if !r.fenced {
		// Invariant 3: without a fence, a message waits for the one before it about the same entity, whatever its type and so
		// its subject.
		key = m.Stream + "\x00" + string(m.Key)
		if _, taken := r.busy[key]; taken {
			return false, true
		}
		r.busy[key] = struct{}{}
	}
	r.launch(c, flight{call: c, index: c.next, id: m.ID, size: size, key: key, predicted: r.last + 1, first: c.next >= c.unsure}, now)
	c.next++
	c.open++
	return true, false
}

// launch publishes the message of f. c.mu is held, so the batch stays.
func (r *run) launch(c *call, f flight, now time.Time) {
	cond := fence{}
	if !r.fenced || r.lastID == "" {
		cond.stream = r.lane.name
	}
	if r.fenced {
		cond.sequenced, cond.last, cond.lastID = true, r.last, r.lastID
	}
	token := r.tail
	*r.flight(token) = f
	r.tail++
	r.waiting++
	r.bytes += f.size
	r.last, r.lastID = r.last+1, f.id
	if r.waiting == 1 {
		r.heard = now
	}
	if err := r.wire.nc.PublishMsg(r.lane.env.fill(&c.batch[f.index], r.wire.reply(token), cond)); err != nil {
		// Nothing of it will be heard; what comes before it may still be answered.
		r.refuse(token, ack{err: err, unsure: true})
	}
}

// take notes an answer.
func (r *run) take(token uint64, a ack, now time.Time) {
	if token < r.head || token >= r.tail || r.flight(token).state != waiting {
		return
	}
	r.heard = now
	f := r.flight(token)
	switch {
	case a.err != nil:
		r.refuse(token, a)
		return
	case a.stream != r.lane.name:
		r.refuse(token, ack{err: fmt.Errorf("the subject belongs to the stream %s, not to %s", a.stream, r.lane.name)})
		return
	}
	r.close(f, stored)
	r.lane.anchor.raise(a.seq)
	if !a.duplicate {
		r.lane.anchor.stored(a.seq)
		r.stored++
		r.window = min(r.window+1, len(r.flights))
	}
	f.call.acked(f.index, a.seq, a.duplicate && f.first)
	f.call.answered()
	r.lane.progress(f.call)
	r.follow(f, a)
	for r.head < r.tail && r.flight(r.head).state == stored {
		*r.flight(r.head) = flight{state: stored}
		r.head++
	}
}

// follow keeps the prediction after an acknowledgement.
func (r *run) follow(f *flight, a ack) {
	switch {
	case !r.fenced:
		if r.lane.pace.acked(a, r.heard) {
			r.moved, r.over = true, true
		}
	case a.duplicate:
		// It was not stored now, so what follows it finds its fence shut.
		r.sawDup, r.over = true, true
	case a.seq != f.predicted:
		r.over = true
	}
}

// refuse notes that a message was not stored.
func (r *run) refuse(token uint64, a ack) {
	f := r.flight(token)
	r.close(f, refused)
	f.answer = a
	r.over = true
	// In launch the call is locked and not counted yet: the end of the run answers for all that was refused.
}

// close takes f off the window.
func (r *run) close(f *flight, state flightState) {
	f.state = state
	r.waiting--
	r.bytes -= f.size
	if f.key != "" {
		delete(r.busy, f.key)
	}
}

// deny takes a refusal that belongs to no answer for that of the first message under way to the subject it names.
func (r *run) deny(err error, now time.Time) {
	for token := r.head; token < r.tail; token++ {
		f := r.flight(token)
		if f.state != waiting {
			continue
		}
		if subject := f.call.destination(f.index); subject != "" && strings.Contains(err.Error(), strconv.Quote(subject)) {
			r.heard = now
			r.refuse(token, ack{err: fmt.Errorf("grant the user the right to publish on it: %w", err)})
			return
		}
	}
}

// errNoAnswer is the fault of a server that is there and does not answer to messages.
var errNoAnswer = errors.New("no acknowledgement within " + ackWait.String())
