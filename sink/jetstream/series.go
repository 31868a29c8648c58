package jetstream

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/sink"

	"github.com/nats-io/nats.go/jetstream"
)

// ackWait is how long the worker waits for any answer before it takes the messages under way for
// lost.
const ackWait = 5 * time.Second

// inFlight is one message on its way.
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
	worker *worker
	wire   *wire
	stream jetstream.Stream
	// fenced: each message names the one before it as a condition. Else the worker keeps one
	// message a key under way.
	fenced bool
	// limits hold as they were at the time asked.
	limits limits
	asked  time.Time

	// flights holds those with the tokens from head to tail, at token modulo its length.
	flights    []inFlight
	head, tail uint64
	// waiting are under way and will be answered, silent those that ask for no answer. bytes is the
	// size of both.
	waiting, silent, bytes int
	// mute counts the messages sent since one asked for an answer, muteBytes is their size.
	mute, muteBytes int
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
	// shut: the server has refused a message because of its fence.
	shut bool
	// sawDup: the series ended because a message was a repeat.
	sawDup bool
	// moved: the series ends to change over to a fenced one.
	moved bool
	// stored counts the messages that this series has stored.
	stored int
	// heard is when the last answer came, or the first of those under way was sent.
	heard time.Time
	// err is why messages that have no answer are given up.
	err error
}

func (r *series) at(token uint64) *inFlight { return &r.flights[token%uint64(len(r.flights))] }

// room reports whether one more message of this size may be under way.
func (r *series) room(size int) bool {
	n := int(r.tail - r.head)
	return n == 0 || n < min(r.window, len(r.flights)) && r.bytes+size <= r.worker.options.WindowBytes
}

// send publishes up to a burst of messages and reports whether there may be more to send now. wake
// is when the first of the calls that are held up is to be tried again.
func (r *series) send(now time.Time) (more bool, wake time.Time) {
	const burst = 128
	n := 0
	for _, c := range r.worker.calls {
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
		// Invariant 3: without a fence, a message waits for the one before it about the same
		// entity, whatever its type and so its subject.
		key = m.Stream + "\x00" + string(m.Key)
		if _, taken := r.busy[key]; taken {
			return false, true
		}
		r.busy[key] = struct{}{}
	}
	r.launch(c, inFlight{call: c, index: c.next, id: m.DedupID(), size: size, key: key, predicted: r.last + 1, first: c.next >= c.unsure}, now)
	c.next++
	c.open++
	return true, false
}

// launch publishes the message of f. c.mu is held, so the batch stays.
func (r *series) launch(c *call, f inFlight, now time.Time) {
	cond := fence{id: f.id}
	if !r.fenced || r.lastID == "" {
		cond.stream = r.worker.name
	}
	if r.fenced {
		cond.sequenced, cond.last, cond.lastID = true, r.last, r.lastID
	}
	token, reply := r.tail, ""
	if f.silent = !r.asks(c, &f); f.silent {
		r.silent++
		r.mute, r.muteBytes = r.mute+1, r.muteBytes+f.size
	} else {
		reply = r.wire.reply(token)
		r.waiting++
		r.mute, r.muteBytes = 0, 0
	}
	*r.at(token) = f
	r.tail++
	r.bytes += f.size
	r.last, r.lastID = r.last+1, f.id
	if r.waiting == 1 && !f.silent {
		r.heard = now
	}
	if err := r.wire.nc.PublishMsg(r.worker.env.fill(&c.batch[f.index], reply, cond)); err != nil {
		// Nothing of it will be heard; what comes before it may still be answered.
		r.refuse(token, ack{err: err, unsure: true})
	}
}

// answersPerWindow is how many answers are asked for while a window is sent.
const answersPerWindow = 8

// asks reports whether the message of f, of the call c, has to ask for an answer. In a fenced
// series an answer speaks for all before it, and each costs both sides as much as a message. The
// last of a call always asks, and so does what was refused before. c.mu is held.
func (r *series) asks(c *call, f *inFlight) bool {
	return !r.fenced || c.fault != "" || !c.pendingBehind(f.index) ||
		(r.mute+1)*answersPerWindow >= r.window || (r.muteBytes+f.size)*answersPerWindow >= r.worker.options.WindowBytes
}

// receive notes an answer.
func (r *series) receive(token uint64, a ack, now time.Time) {
	if token < r.head || token >= r.tail || r.at(token).state != waiting {
		return
	}
	r.heard = now
	f := r.at(token)
	switch {
	case a.err != nil:
		r.refuse(token, a)
		return
	case a.stream != r.worker.name:
		r.refuse(token, ack{err: fmt.Errorf("the subject belongs to the stream %s, not to %s", a.stream, r.worker.name)})
		return
	}
	if r.fenced && !a.duplicate && a.seq == f.predicted {
		r.storedBefore(token)
	}
	r.noteStored(f, a)
	r.follow(f, a)
	r.advance()
}

// storedBefore notes what was sent before a message that is stored where it was to be: its fence
// was open, so all of it is stored, too, each at its sequence.
func (r *series) storedBefore(token uint64) {
	for before := r.head; before < token; before++ {
		if f := r.at(before); f.state == waiting {
			r.noteStored(f, ack{seq: f.predicted})
		}
	}
}

// noteStored notes that a message is stored.
func (r *series) noteStored(f *inFlight, a ack) {
	r.close(f, stored)
	if !a.duplicate {
		r.stored++
	}
	r.window = min(r.window+1, len(r.flights))
	f.call.acked(f.index, a, r.worker.ref, f.first)
	f.call.answered()
	r.worker.progress(f.call)
}

// advance lets go of what is stored at the front of the window.
func (r *series) advance() {
	for r.head < r.tail && r.at(r.head).state == stored {
		*r.at(r.head) = inFlight{state: stored}
		r.head++
	}
}

// follow keeps the prediction after an acknowledgement.
func (r *series) follow(f *inFlight, a ack) {
	switch {
	case !a.duplicate && a.seq <= r.worker.base:
		// It is not the stream that the series began with.
		r.over = true
	case !r.fenced:
		if r.worker.pace.acked(a, r.heard) && !r.worker.replicated {
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
func (r *series) refuse(token uint64, a ack) {
	f := r.at(token)
	r.close(f, refused)
	f.answer = a
	r.over = true
	r.shut = r.shut || a.fenceBroken()
	// In launch the call is locked and not counted yet: the end of the series answers for all that
	// was refused.
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
		if subject := f.call.destination(f.index); subject != "" && strings.Contains(err.Error(), strconv.Quote(subject)) {
			r.heard = now
			// A later message may have been meant.
			r.refuse(token, ack{err: fmt.Errorf("grant the user the right to publish on it: %w", err), unsure: true})
			return
		}
	}
}

// errNoAnswer is the fault of a server that is there and does not answer to messages.
var errNoAnswer = errors.New("no acknowledgement within " + ackWait.String())
