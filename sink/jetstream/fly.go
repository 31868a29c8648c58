package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/internal/backoff"
)

// fly sends and takes answers until the run is over and everything under way is answered, or the connection goes, or no
// answer comes any more.
func (r *run) fly(ctx context.Context) {
	timer := time.NewTimer(ackWait)
	defer timer.Stop()
	for {
		now := time.Now()
		r.absorb(now)
		r.lane.prune()
		if r.over && r.waiting == 0 {
			r.inquire(ctx)
			return
		}
		more, wake := false, time.Time{}
		if !r.over {
			if more, wake = r.send(now); more || r.over && r.waiting == 0 {
				continue
			}
		}
		switch {
		case r.waiting == 0 && r.silent > 0:
			// Whoever was to send what asks for an answer has left.
			r.over = true
			continue
		case r.waiting > 0:
			if now.Sub(r.heard) >= ackWait {
				r.giveUp()
				return
			}
			wake = earlier(wake, r.heard.Add(ackWait))
		}
		if !r.block(ctx, timer, wake) {
			return
		}
	}
}

// inquire asks the stream what became of the messages behind the last answer, none of which will be answered. What it does not tell
// the next run finds out.
func (r *run) inquire(ctx context.Context) {
	if r.silent == 0 || r.flight(r.tail-1).state != waiting {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	// The server answers requests beside what it still has to store.
	for until := time.Now().Add(unreadFor); ; {
		there, gone, err := holds(ctx, r.stream, r.flight(r.tail-1))
		if err == nil && there {
			r.settleBefore(r.tail)
			r.advance()
		}
		if there || !gone || r.shut || time.Now().After(until) || backoff.Pause(ctx, unreadFor/50) != nil {
			return
		}
	}
}

// unreadFor is how long what was sent may take until the stream has it.
const unreadFor = 250 * time.Millisecond

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// absorb takes what is there without waiting.
func (r *run) absorb(now time.Time) {
	for {
		select {
		case m := <-r.wire.acks:
			if token, ok := r.wire.token(m.Subject); ok {
				r.take(token, parseAck(m, r.lane.name), now)
			}
		case c := <-r.lane.submit:
			r.admit(c)
		case err := <-r.wire.denied:
			r.deny(err, now)
		default:
			return
		}
	}
}

// limitsAge is how old limits may be by which a message is refused.
const limitsAge = 100 * time.Millisecond

// fencedFor is how long a fenced run may last: a stream that is given replicas must not be sent fences for long.
const fencedFor = 30 * time.Second

// admit takes a call. Where old limits refuse a message of it the run ends, and the next one asks for them: somebody may have
// raised them.
func (r *run) admit(c *call) {
	r.lane.calls = append(r.lane.calls, c)
	age := time.Since(r.asked)
	if age > limitsAge && c.tooLarge(r.limits) || r.fenced && age > fencedFor {
		r.over = true
		return
	}
	c.examine(r.limits)
}

// block waits for something to happen, until wake when that is set. It returns false when the run is to end.
func (r *run) block(ctx context.Context, timer *time.Timer, wake time.Time) bool {
	var alarm <-chan time.Time
	if !wake.IsZero() {
		timer.Reset(max(0, time.Until(wake)))
		alarm = timer.C
	}
	select {
	case m := <-r.wire.acks:
		if token, ok := r.wire.token(m.Subject); ok {
			r.take(token, parseAck(m, r.lane.name), time.Now())
		}
	case c := <-r.lane.submit:
		r.admit(c)
	case err := <-r.wire.denied:
		r.deny(err, time.Now())
	case <-alarm:
	case <-r.wire.gone:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// giveUp ends the wait for answers. A connection that does not answer to a ping either is given up with them.
func (r *run) giveUp() {
	r.err = errNoAnswer
	if err := r.wire.nc.FlushTimeout(2 * time.Second); err != nil {
		r.wire.drop(fmt.Errorf("the server answers neither to messages nor to a ping: %w", err))
	}
}

// end settles the run: what was not stored is left for the next one, and the cause decides what happens until then.
func (r *run) end() {
	l := r.lane
	l.token = r.tail
	var cause *flight
	certain := true
	for token := r.head; token < r.tail; token++ {
		f := r.flight(token)
		if f.state == stored {
			continue
		}
		if f.state == waiting && r.fenced && certain {
			// Behind a refused message no fence can have opened.
			l.suspects = append(l.suspects, *f)
		}
		if f.state == refused {
			certain = false
		}
		if cause == nil {
			cause = f
		}
		// What asked for no answer was on the stream before a shut fence told, or is not.
		told := f.silent && r.shut && r.err == nil && r.wire.alive()
		f.call.rewind(f.index, f.state == waiting && !told || f.answer.unsure)
		f.call.answered()
	}
	r.judge(cause)
	l.doubt = r.shut && !r.sawDup && cause != nil && cause.state == waiting
	clear(r.flights)
	l.prune()
}

// judge draws the conclusions from the first message that was not stored.
func (r *run) judge(cause *flight) {
	l := r.lane
	foreign := cause != nil && cause.state == refused && cause.answer.fenceBroken() && !r.sawDup
	l.pace.ended(r, foreign, time.Now())
	switch {
	case cause == nil, foreign:
	case cause.state == waiting:
		if r.err != nil && r.wire.alive() {
			l.hold(cause.call, cause.index, r.err)
		}
	case cause.answer.tooLarge():
		cause.call.refuse(cause.index, fmt.Sprintf("%d bytes with its headers are more than the stream %s takes (max_msg_size %d when last read): %v",
			cause.call.size(cause.index), l.name, r.limits.message, cause.answer.err))
	case cause.answer.fenceBroken():
	case !r.wire.alive():
	case l.options.Stream == "" && (cause.answer.code == codeStreamMismatch || errors.Is(cause.answer.err, errNoStream)):
		cause.call.fail(errMoved)
	default:
		l.hold(cause.call, cause.index, cause.answer.err)
	}
}
