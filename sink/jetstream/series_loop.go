package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/internal/backoff"
)

// fly sends and takes answers until the series is over and everything under way is answered, or the
// connection goes, or no answer comes any more.
func (r *series) fly(ctx context.Context) {
	timer := time.NewTimer(ackWait)
	defer timer.Stop()
	for {
		now := time.Now()
		r.absorb(now)
		r.worker.prune()
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
			// The call whose message would ask for an answer was cancelled.
			r.over = true
			continue
		case r.waiting > 0:
			if now.Sub(r.heard) >= ackWait {
				r.giveUp()
				return
			}
			wake = earlier(wake, r.heard.Add(ackWait))
		}
		if !r.wait(ctx, timer, wake) {
			return
		}
	}
}

// inquire asks the stream what became of the messages after the last answer, none of which will be
// answered. What it does not tell the next series finds out.
func (r *series) inquire(ctx context.Context) {
	if r.silent == 0 || r.at(r.tail-1).state != waiting {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	// The server answers requests beside what it still has to store.
	for until := time.Now().Add(unreadFor); ; {
		there, gone, err := holds(ctx, r.stream, r.at(r.tail-1))
		if err == nil && there {
			r.storedBefore(r.tail)
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
func (r *series) absorb(now time.Time) {
	for {
		select {
		case m := <-r.wire.acks:
			if token, ok := r.wire.token(m.Subject); ok {
				r.receive(token, parseAck(m, r.worker.name), now)
			}
		case c := <-r.worker.submit:
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

// seriesFor is how long a series may last: a stream that is given replicas must not be sent fences
// for long, and one that was created again is to be noticed.
const seriesFor = 30 * time.Second

// admit takes a call. Where old limits refuse a message of it the series ends, and the next one
// asks for them: they may be higher now.
func (r *series) admit(c *call) {
	r.worker.calls = append(r.worker.calls, c)
	age := time.Since(r.asked)
	if (age > limitsAge || r.limits.guess) && c.tooLarge(r.limits) || age > seriesFor {
		r.over = true
		return
	}
	c.examine(r.limits)
}

// wait waits for something to happen, until wake when that is set. It returns false when the
// series is to end.
func (r *series) wait(ctx context.Context, timer *time.Timer, wake time.Time) bool {
	var alarm <-chan time.Time
	if !wake.IsZero() {
		timer.Reset(max(0, time.Until(wake)))
		alarm = timer.C
	}
	select {
	case m := <-r.wire.acks:
		if token, ok := r.wire.token(m.Subject); ok {
			r.receive(token, parseAck(m, r.worker.name), time.Now())
		}
	case c := <-r.worker.submit:
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

// giveUp ends the wait for answers. A connection that does not answer to a ping either is given up
// with them.
func (r *series) giveUp() {
	r.err = errNoAnswer
	if err := r.wire.nc.FlushTimeout(2 * time.Second); err != nil {
		r.wire.drop(fmt.Errorf("the server answers neither to messages nor to a ping: %w", err))
	}
}

// end ends the series: what was not stored is left for the next one, and the cause decides what
// happens until then.
func (r *series) end() {
	w := r.worker
	w.token = r.tail
	var cause *inFlight
	certain := true
	for token := r.head; token < r.tail; token++ {
		f := r.at(token)
		if f.state == stored {
			continue
		}
		if f.state == waiting && r.fenced && certain {
			// After a refused message no fence can have opened.
			w.suspects = append(w.suspects, *f)
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
	r.blame(cause)
	w.doubt = r.shut && !r.sawDup && cause != nil && cause.state == waiting
	clear(r.flights)
	w.prune()
}

// blame draws the conclusions from the first message that was not stored.
func (r *series) blame(cause *inFlight) {
	w := r.worker
	foreign := cause != nil && cause.state == refused && cause.answer.fenceBroken() && !r.sawDup
	w.pace.ended(r, foreign, time.Now())
	switch {
	case cause == nil, foreign:
	case cause.state == waiting:
		if r.err != nil && r.wire.alive() {
			w.postpone(cause.call, cause.index, r.err)
		}
	case cause.answer.tooLarge():
		cause.call.refuse(cause.index, fmt.Sprintf("%d bytes with its headers are more than the stream %s takes (max_msg_size %d when last read): %v",
			cause.call.size(cause.index), w.name, r.limits.message, cause.answer.err))
	case cause.answer.fenceBroken():
	case !r.wire.alive():
	case w.options.Stream == "" && (cause.answer.code == codeStreamMismatch || errors.Is(cause.answer.err, errNoStream)):
		cause.call.fail(errMoved)
	default:
		w.postpone(cause.call, cause.index, cause.answer.err)
	}
}
