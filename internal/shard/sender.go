package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/catchup"
	"example.org/bridge/sink"
)

// sender puts messages on the bus: it waits for a bus that is away and puts aside what the bus
// refuses for good. It serves one goroutine.
type sender struct {
	opts    *Options
	retrier *retrier
	// sent is what became of the last batch, messages and indices are used again and again.
	sent     sent
	messages []sink.Message
	indices  []int
	// numbers are those of the TPs of an outcome.
	numbers []uint32
}

// sent says where the messages of a batch are on the bus.
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
	s.indices = s.indices[:0]
	for i := range n {
		s.indices = append(s.indices, i)
	}
	if s.opts.Whole {
		return &s.sent, s.sendWhole(ctx, b)
	}
	for from := 0; ; {
		if err := s.sendRest(ctx, b); err != nil {
			return nil, err
		}
		again, err := s.repeats(ctx, b, from)
		if err != nil {
			return nil, err
		}
		if again < 0 {
			break
		}
		// Rule 23: the bus has dropped a message that it does not hold as the entity's last one.
		// Those behind it are sent again, too, so that their order stays.
		for i := again; i < n; i++ {
			b.messages[i].Again = true
			s.sent.locations[i] = location{}
			s.indices = append(s.indices, i)
		}
		from = n
	}
	return &s.sent, nil
}

// sendRest sends the messages of b with the indices of s until there are none left.
func (s *sender) sendRest(ctx context.Context, b *batch) error {
	left := b.messages
	for whole := len(s.indices) == len(b.messages); len(s.indices) > 0; whole = false {
		if !whole {
			s.messages = s.messages[:0]
			for _, i := range s.indices {
				s.messages = append(s.messages, b.messages[i])
			}
			left = s.messages
		}
		outcome, err := s.send(ctx, left)
		s.sent.rows += s.opts.Metrics.outcome(s.opts.Stream, left, &outcome)
		s.locateAll(ctx, left, &outcome)
		if err == nil {
			err = s.putAside(ctx, b, &outcome)
		}
		s.indices = pending(s.indices, &outcome)
		if err != nil {
			return err
		}
	}
	return nil
}

// pending returns the indices of messages that are neither acknowledged nor put aside, in their
// order.
func pending(indices []int, outcome *sink.Outcome) []int {
	left := indices[:0]
	for i, index := range indices {
		if i >= len(outcome.Status) || outcome.Status[i] != sink.Acked {
			left = append(left, index)
		}
	}
	return left
}

// send publishes messages; an absent bus is waited for.
func (s *sender) send(ctx context.Context, messages []sink.Message) (outcome sink.Outcome, err error) {
	err = s.retrier.wait(publishing, forEver, func() error {
		outcome, err = s.opts.Sink.Publish(ctx, messages)
		return err
	})
	return outcome, err
}

// locateAll notes where the messages with the indices of s lie, as far as an outcome says so.
func (s *sender) locateAll(ctx context.Context, messages []sink.Message, outcome *sink.Outcome) {
	if s.opts.Reader == nil {
		return
	}
	s.numbers = s.numbers[:0]
	for _, tp := range outcome.TPs {
		s.numbers = append(s.numbers, s.number(ctx, tp))
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

// number returns the number of a TP in which messages were acknowledged, 0 for none.
func (s *sender) number(ctx context.Context, tp sink.TPRef) uint32 {
	number := s.opts.Committer.Number(s.opts.Stream, tp)
	if number != 0 {
		return number
	}
	number, err := s.opts.Recovery.Register(ctx, s.opts.Stream, tp)
	if err != nil {
		s.opts.Logger.Debug("messages were stored in a topic or stream that is not registered", "tp", tp.Name, "error", err)
		s.sent.unknown = true
	}
	return number
}

// repeats looks at the messages from an index on that the bus took for repeats. It returns the
// first one that has to be sent again, -1 for none (rule 23).
func (s *sender) repeats(ctx context.Context, b *batch, from int) (int, error) {
	for i := from; i < len(s.sent.locations); i++ {
		p := &s.sent.locations[i]
		if !p.duplicate {
			continue
		}
		stored, found, err := s.stored(ctx, p, &b.messages[i])
		if err != nil {
			return 0, err
		}
		if !found || !s.isLast(b, i, &stored) {
			return i, nil
		}
		p.epoch, p.seq = stored.State.Epoch, stored.State.Seq
	}
	return -1, nil
}

// stored reads the message at p that the bus took sent for a repeat of. It is found if it is ours:
// of our domain, and at the destination of sent. One that is gone, or may not be read, is not.
func (s *sender) stored(ctx context.Context, p *location, sent *sink.Message) (m catchup.Message, found bool, err error) {
	span := sink.Span{TP: p.tp, From: p.at.Offset, To: p.at.Offset + 1}
	_, err = s.opts.Reader.Read(ctx, span, func(stored *sink.Stored) error {
		if string(stored.Header(sink.HeaderDomain)) != sent.Domain || stored.Destination != sent.Destination {
			return nil
		}
		if m, err = catchup.ParseMessage(stored); err == nil {
			m.At, m.Stream, m.Shard, m.Key, found = p.at, s.opts.Stream, s.opts.Name, slices.Clone(m.Key), true
		}
		return nil
	})
	if errors.Is(err, sink.ErrExpired) || errors.Is(err, sink.ErrGone) || errors.Is(err, sink.ErrBehind) || errors.Is(err, sink.ErrUnreadable) {
		return m, false, nil
	}
	return m, found, err
}

// isLast reports whether a stored message says what message i of b says, and nothing newer is
// known of its entity.
func (s *sender) isLast(b *batch, i int, stored *catchup.Message) bool {
	m := &b.messages[i]
	id, err := event.ParseID(m.ID)
	return err == nil && id == stored.Event && (b.claims == nil || s.opts.View.IsLast(m.Shard, m.Key, stored))
}

// excerpts are the sizes of dead letters to try, in bytes: the bus may refuse a large one like the
// message itself.
var excerpts = []int{256 << 10, 32 << 10, 4 << 10, sink.MinDeadLetter}

// putAside publishes a dead letter for each rejected message of an outcome, before anything that
// comes after it, and notes it as acknowledged.
func (s *sender) putAside(ctx context.Context, b *batch, outcome *sink.Outcome) error {
	for _, r := range outcome.Rejected {
		if err := s.putOneAside(ctx, b, s.indices[r.Index], r.Reason); err != nil {
			return err
		}
		outcome.Status[r.Index] = sink.Acked
	}
	return nil
}

// refuse returns what a dead letter of message index says, or an error where there may be none.
func (s *sender) refuse(b *batch, index int, reason string) (sink.Refused, error) {
	m := b.messages[index]
	if s.opts.DeadLetter == "" {
		return sink.Refused{}, &sink.RejectedError{Message: m, Reason: reason}
	}
	if i := slices.IndexFunc(b.again, func(r *resending) bool { return r.outcome.Event == m.ID }); i >= 0 {
		// It is a dead letter already, and counts no more.
		b.again[i].outcome.State, b.again[i].outcome.Why = ResendRefused, reason
	} else if err := s.opts.DeadLetterLimit.count(&m, reason, time.Now()); err != nil {
		return sink.Refused{}, err
	}
	r := sink.Refused{Message: m, Reason: reason}
	if b.claims != nil {
		r.Entity = m.Key
	}
	return r, nil
}

// noted notes that the dead letter of a row is on the bus.
func (s *sender) noted(r *sink.Refused) {
	m := &r.Message
	s.opts.Metrics.deadLetter(s.opts.Stream)
	s.retrier.status.putAside(r.Reason)
	s.opts.Logger.Warn("row put aside as a dead letter", "destination", s.opts.DeadLetter,
		"id", m.RowID, "event_id", m.ID, "bytes", len(m.Value), "reason", r.Reason)
}

// refusedTwice is the error of a row whose dead letter is refused, too.
func (s *sender) refusedTwice(r *sink.Refused) error {
	return &sink.RejectedError{Message: r.Message, Reason: r.Reason, DeadLetter: s.opts.DeadLetter, Entity: r.Entity}
}

func (s *sender) putOneAside(ctx context.Context, b *batch, index int, reason string) error {
	r, err := s.refuse(b, index, reason)
	if err != nil {
		return err
	}
	for _, limit := range excerpts {
		dead := sink.DeadLetter(r, s.opts.DeadLetter, limit)
		outcome, err := s.send(ctx, []sink.Message{dead})
		if err != nil {
			return err
		}
		if !outcome.AllAcked() {
			continue
		}
		again, err := s.locateDeadLetter(ctx, index, &dead, &outcome)
		if again && err == nil {
			dead.Again = true
			if outcome, err = s.send(ctx, []sink.Message{dead}); err == nil && !outcome.AllAcked() {
				continue
			}
			if err == nil {
				_, err = s.locateDeadLetter(ctx, index, &dead, &outcome)
			}
		}
		if err == nil {
			s.noted(&r)
		}
		return err
	}
	return s.refusedTwice(&r)
}

// locateDeadLetter notes where the dead letter of message index lies. One of ours that the bus
// holds already is as good: it names the same event. Again says that the bus took it for a repeat
// and does not hold it.
func (s *sender) locateDeadLetter(ctx context.Context, index int, dead *sink.Message, outcome *sink.Outcome) (again bool, err error) {
	all := s.indices
	s.indices = []int{index}
	s.locateAll(ctx, []sink.Message{*dead}, outcome)
	s.indices = all
	p := &s.sent.locations[index]
	if p.duplicate && !dead.Again {
		_, found, failed := s.stored(ctx, p, dead)
		again, err = !found, failed
	}
	p.dead, p.duplicate = dead, false
	return again, err
}

// putAsideRow is a row of a batch whose dead letter is sent instead.
type putAsideRow struct {
	index   int
	refused sink.Refused
	dead    sink.Message
	// smaller is the index of the next size to try.
	smaller int
}

// sendWhole sends the messages of b to a sink.Transactional until all of them are acknowledged at
// once, with dead letters instead of those that the bus refuses. Where a row may not be put
// aside, those before it are sent, as other sinks do: its error ends the attempt.
func (s *sender) sendWhole(ctx context.Context, b *batch) error {
	var aside []*putAsideRow
	var stop error
	for left := b.messages; len(left) > 0; left = s.messages {
		outcome, err := s.send(ctx, left)
		s.sent.rows += s.opts.Metrics.outcome(s.opts.Stream, left, &outcome)
		if errors.Is(err, sink.ErrUnknownOutcome) || errors.Is(err, sink.ErrFenced) {
			err = fmt.Errorf("%w: %w", catchup.ErrReadBack, err)
		}
		if err != nil {
			return err
		}
		if outcome.AllAcked() {
			s.indices = s.indices[:len(left)]
			s.locateAll(ctx, left, &outcome)
			for _, a := range aside {
				s.sent.locations[a.index].dead = &a.dead
				s.noted(&a.refused)
			}
			return stop
		}
		if len(outcome.Rejected) == 0 {
			return fmt.Errorf("the bus has taken a part of a batch: %w", catchup.ErrReadBack)
		}
		s.messages = append(s.messages[:0], b.messages[:len(left)]...)
		for _, r := range outcome.Rejected {
			if r.Index >= len(s.messages) {
				continue
			}
			if aside, err = s.replace(b, aside, r); err != nil {
				stop, s.messages = err, s.messages[:r.Index]
			}
		}
		aside = slices.DeleteFunc(aside, func(a *putAsideRow) bool { return a.index >= len(s.messages) })
		for _, a := range aside {
			s.messages[a.index] = a.dead
		}
	}
	return stop
}

// replace makes a dead letter of a rejected message, or a smaller one of a rejected dead letter.
func (s *sender) replace(b *batch, aside []*putAsideRow, r sink.Rejection) ([]*putAsideRow, error) {
	i := slices.IndexFunc(aside, func(a *putAsideRow) bool { return a.index == r.Index })
	if i < 0 {
		refused, err := s.refuse(b, r.Index, r.Reason)
		if err != nil {
			return aside, err
		}
		i = len(aside)
		aside = append(aside, &putAsideRow{index: r.Index, refused: refused})
	}
	row := aside[i]
	if row.smaller == len(excerpts) {
		return aside, s.refusedTwice(&row.refused)
	}
	row.dead = sink.DeadLetter(row.refused, s.opts.DeadLetter, excerpts[row.smaller])
	row.smaller++
	return aside, nil
}
