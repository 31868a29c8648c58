package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// sender puts messages on the bus: it waits for a bus that is away and puts aside what the bus
// refuses for good. It serves one goroutine.
type sender struct {
	opts    *Options
	retrier *retrier
	// sent is what became of the last batch, aside its dead letters by the index of their message;
	// indices are those of messages that are yet to be sent.
	sent    sent
	aside   map[int]*putAside
	indices []int
	// messages and numbers are used again and again: numbers are those of the TPs of an outcome.
	messages []sink.Message
	numbers  []uint32
}

// putAside is a dead letter that is sent instead of a message.
type putAside struct {
	refused sink.Refused
	dead    sink.Message
	// smaller is the index of the next size to try.
	smaller int
	// logged says that status and log have it.
	logged bool
}

type sent struct {
	// locations has one entry per message.
	locations []location
	// unknown says that the bus told no offset of some, repeated that it holds others as they were
	// sent before.
	unknown, repeated bool
	// rows counts the events that were acknowledged.
	rows int
}

// location is the TP and offset of a message. The zero value says that they are unknown.
type location struct {
	at store.At
	// epoch and seq are its stamp.
	epoch, seq uint64
	// covered says that the offset is the message's own. dead is the dead letter that is there
	// instead of the message, nil for none.
	covered bool
	dead    *sink.Message
	// tp is the name of the TP of a message that the bus took for a repeat.
	tp        string
	duplicate bool
	// marker says that the offset before holds no message (sink.At).
	marker bool
}

// sendAll sends the messages of b until each is acknowledged or put aside as a dead letter. What it
// returns is good until the next call.
func (s *sender) sendAll(ctx context.Context, b *batch) (*sent, error) {
	n := len(b.messages)
	s.sent = sent{locations: slices.Grow(s.sent.locations[:0], n)[:n]}
	clear(s.sent.locations)
	clear(s.aside)
	s.indices = s.indices[:0]
	for i := range n {
		s.indices = append(s.indices, i)
	}
	for i, reason := range b.unfit {
		if err := s.putAside(b, i, reason); err != nil {
			return &s.sent, err
		}
	}
	if err := s.sendRest(ctx, b); err != nil || s.opts.Whole {
		return &s.sent, err
	}
	if err := s.findRepeats(ctx, b); err != nil {
		return nil, err
	}
	return &s.sent, s.sendRest(ctx, b)
}

// sendRest sends the messages of b with the indices of s until there are none left. Where one may
// not be put aside, those before it are sent, and its error ends the attempt. A sink.Transactional
// takes all of them at once, or none.
func (s *sender) sendRest(ctx context.Context, b *batch) (stop error) {
	for end := len(b.messages); len(s.indices) > 0; {
		left := b.messages
		if len(s.indices) < len(left) || len(s.aside) > 0 {
			left = s.part(b)
		}
		var outcome sink.Outcome
		err := s.retrier.wait(publishing, forEver, func() (err error) {
			// An absent bus is waited for.
			outcome, err = s.opts.Sink.Publish(ctx, left)
			return err
		})
		s.sent.rows += s.opts.Metrics.outcome(s.opts.Stream, left, &outcome)
		s.locateAll(ctx, left, &outcome)
		s.logDeadLetters(&outcome)
		if s.opts.Whole && (errors.Is(err, sink.ErrUnknownOutcome) || errors.Is(err, sink.ErrFenced)) {
			err = fmt.Errorf("%w: %w", stream.ErrReadBack, err)
		}
		if err != nil {
			return err
		}
		for _, r := range outcome.Rejected {
			if err := s.putAside(b, s.indices[r.Index], r.Reason); err != nil {
				stop, end = err, s.indices[r.Index]
				break
			}
		}
		unacked := s.indices[:0]
		for i, index := range s.indices {
			if index < end && (i >= len(outcome.Status) || outcome.Status[i] != sink.Acked) {
				unacked = append(unacked, index)
			}
		}
		s.indices = unacked
		if s.opts.Whole && len(s.indices) > 0 && len(outcome.Rejected) == 0 {
			return fmt.Errorf("the bus has taken a part of a batch: %w", stream.ErrReadBack)
		}
	}
	return stop
}

// part returns the messages with the indices of s, or their dead letters, which are sent again as
// their messages are: what has an id of its own is no repeat of an earlier one, and need not be
// looked up (rule 23).
func (s *sender) part(b *batch) []sink.Message {
	s.messages = s.messages[:0]
	for _, i := range s.indices {
		if a := s.aside[i]; a != nil {
			a.dead.Again = b.messages[i].Again
			s.messages = append(s.messages, a.dead)
		} else {
			s.messages = append(s.messages, b.messages[i])
		}
	}
	return s.messages
}

func (s *sender) locateAll(ctx context.Context, messages []sink.Message, outcome *sink.Outcome) {
	if s.opts.Reader == nil {
		return
	}
	s.numbers = s.numbers[:0]
	for _, tp := range outcome.TPs {
		number, err := s.retrier.number(ctx, publishing, s.opts, tp)
		if err != nil {
			s.opts.Logger.Debug("messages were stored in a topic or stream that is not registered", "tp", tp.Name, "error", err)
			s.sent.unknown = true
		}
		s.numbers = append(s.numbers, number)
	}
	for i, status := range outcome.Status {
		if status != sink.Acked {
			continue
		}
		at, state := sink.At{}, &messages[i].State
		if i < len(outcome.At) {
			at = outcome.At[i]
		}
		p := &s.sent.locations[s.indices[i]]
		*p = location{epoch: state.Epoch, seq: state.Seq}
		if !at.Known {
			s.sent.unknown = true
			continue
		}
		p.at.Offset, p.duplicate = at.Offset, at.Duplicate
		if at.Duplicate {
			p.tp, s.sent.repeated = outcome.TPs[at.TP].Name, true
		}
		if p.at.TP = s.numbers[at.TP]; p.at.TP != 0 {
			p.covered, p.marker = !at.Duplicate, at.Marker
		}
	}
}

// number returns the number of a TP, which it registers, 0 for none.
func (r *retrier) number(ctx context.Context, l loop, opts *Options, tp sink.TPRef) (number uint32, err error) {
	if number, _ = opts.Committer.Number(opts.Stream, tp); number == 0 {
		err = r.wait(l, forEver, func() error { number, err = opts.Recovery.Register(ctx, opts.Stream, tp); return err })
	}
	return number, err
}

// findRepeats looks at the messages that the bus took for repeats: those that have to be sent again
// are the indices of s then (rule 23).
func (s *sender) findRepeats(ctx context.Context, b *batch) error {
	for i := range s.sent.locations {
		p, m := &s.sent.locations[i], &b.messages[i]
		if !p.duplicate {
			continue
		}
		sent := m
		if p.dead != nil {
			sent = p.dead
		}
		stored, found, err := s.stored(ctx, p, sent)
		// It says what m says, and nothing newer is known of its entity.
		isLast := func() bool {
			id, err := event.ParseID(m.ID)
			return err == nil && id == stored.Event && (b.claims == nil || s.opts.View.IsLast(m.Shard, m.Key, &stored))
		}
		switch {
		case err != nil:
			return err
		case p.dead != nil && found:
			// One of ours is as good: it names the same event.
		case p.dead != nil:
			m.Again = true
			s.indices = append(s.indices, i)
		case !found || !isLast():
			// The bus has dropped a message that it does not hold as the entity's last one. Those
			// behind it are sent again, too, so that their order stays.
			for ; i < len(b.messages); i++ {
				b.messages[i].Again = true
				s.sent.locations[i] = location{}
				s.indices = append(s.indices, i)
			}
			return nil
		default:
			p.epoch, p.seq = stored.State.Epoch, stored.State.Seq
		}
	}
	return nil
}

// stored reads the message at p that the bus took sent for a repeat of. It is found if it is ours:
// of our domain, and at the destination of sent. One that is gone, or may not be read, is not.
func (s *sender) stored(ctx context.Context, p *location, sent *sink.Message) (m stream.Message, found bool, err error) {
	span := sink.Span{TP: p.tp, From: p.at.Offset, To: p.at.Offset + 1}
	err = s.retrier.wait(publishing, forEver, func() (err error) {
		_, err = s.opts.Reader.Read(ctx, span, func(stored *sink.Stored) error {
			if string(stored.Header(sink.HeaderDomain)) != sent.Domain || stored.Destination != sent.Destination {
				return nil
			}
			if m, err = stream.ParseMessage(stored); err == nil {
				m.At, m.Stream, m.Shard, m.Key, found = p.at, s.opts.Stream, s.opts.Name, slices.Clone(m.Key), true
			}
			return nil
		})
		return err
	})
	if errors.Is(err, sink.ErrExpired) || errors.Is(err, sink.ErrGone) || errors.Is(err, sink.ErrBehind) || errors.Is(err, sink.ErrUnreadable) {
		return m, false, nil
	}
	return m, found, err
}

// excerpts are the sizes of dead letters to try, in bytes: the bus may refuse a large one like the
// message itself.
var excerpts = []int{256 << 10, 32 << 10, 4 << 10, sink.MinDeadLetter}

// refuse returns what a dead letter of message index says, or an error where there may be none.
func (s *sender) refuse(b *batch, index int, reason string) (sink.Refused, error) {
	m := b.messages[index]
	if s.opts.DeadLetter == "" {
		return sink.Refused{}, &sink.RejectedError{Message: m, Reason: reason}
	}
	// What is a dead letter already counts no more. What never was for the bus says nothing of it.
	if b.unfit[index] == "" && !slices.ContainsFunc(b.again, func(r *resending) bool { return r.refuse(m.ID, reason) }) {
		if err := s.opts.DeadLetterLimit.count(&m, reason, time.Now()); err != nil {
			return sink.Refused{}, err
		}
	}
	r := sink.Refused{Message: m, Reason: reason}
	if b.claims != nil {
		r.Entity = m.Key
	}
	return r, nil
}

func (s *sender) logDeadLetters(outcome *sink.Outcome) {
	if len(s.aside) == 0 {
		return
	}
	for i, status := range outcome.Status {
		a := s.aside[s.indices[i]]
		if a == nil || status != sink.Acked {
			continue
		}
		s.sent.locations[s.indices[i]].dead = &a.dead
		if a.logged {
			continue
		}
		a.logged = true
		m := &a.refused.Message
		s.opts.Metrics.deadLetters.WithLabelValues(s.opts.Stream).Inc()
		s.retrier.status.putAside(a.refused.Reason)
		s.opts.Logger.Warn("row put aside as a dead letter", "destination", s.opts.DeadLetter,
			"id", m.RowID, "event_id", m.ID, "bytes", len(m.Value), "reason", a.refused.Reason)
	}
}

// putAside has a dead letter be sent instead of a message that was rejected, or a smaller one
// instead of a dead letter.
func (s *sender) putAside(b *batch, index int, reason string) error {
	a := s.aside[index]
	if a == nil {
		refused, err := s.refuse(b, index, reason)
		if err != nil {
			return err
		}
		if a = (&putAside{refused: refused}); s.aside == nil {
			s.aside = make(map[int]*putAside)
		}
		s.aside[index] = a
		if done := b.republished; done != nil && done.List {
			done.State, done.Error = stream.RepublishFailed, s.opts.Text(refusedLast(a.refused.Message.Key))
		}
	}
	if a.smaller == len(excerpts) {
		return &sink.RejectedError{Message: a.refused.Message, Reason: a.refused.Reason, DeadLetter: s.opts.DeadLetter, Entity: a.refused.Entity}
	}
	a.dead = sink.DeadLetter(a.refused, s.opts.DeadLetter, excerpts[a.smaller])
	a.smaller++
	return nil
}
