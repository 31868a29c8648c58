package pipeline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"bridge/checkpoint"
	"bridge/sink"
	"bridge/source"
)

// publisher publishes the batches of a shard one after the other and passes on what may be saved.
type publisher struct {
	shard    *Shard
	position source.Position
	marks    map[string]sink.Mark
	out      chan<- save
}

func newPublisher(s *Shard, state checkpoint.State, out chan<- save) *publisher {
	marks := make(map[string]sink.Mark, len(state.Marks))
	for _, m := range state.Marks {
		marks[m.Place] = m
	}
	return &publisher{shard: s, position: state.Position, marks: marks, out: out}
}

// run publishes every batch from in. It returns nil when in is closed, else why it cannot go on; what was acknowledged up to
// there has been passed on then.
func (p *publisher) run(ctx context.Context, in <-chan *batch) error {
	for b := range in {
		err := p.publish(ctx, b)
		p.shard.status.dequeue()
		p.shard.discard(b)
		if err != nil {
			return err
		}
	}
	return nil
}

// publish sends b until all of it is acknowledged or put aside as a dead letter.
func (p *publisher) publish(ctx context.Context, b *batch) error {
	if !b.readAt.IsZero() && p.position.Reading.Through < b.last {
		if err := p.fixReading(ctx, b); err != nil {
			return err
		}
	}
	started := time.Now()
	rest := b.messages
	for len(rest) > 0 {
		outcome, err := p.shard.opts.Sink.Publish(ctx, rest)
		p.note(rest, &outcome)
		if err == nil {
			err = p.bury(ctx, rest, outcome.Rejected)
		}
		if err != nil {
			return errors.Join(err, p.saveDone(ctx, b, rest, &outcome))
		}
		rest = pending(rest, &outcome)
	}
	p.shard.opts.Metrics.publish.WithLabelValues(p.shard.opts.Stream).Observe(time.Since(started).Seconds())
	p.position.ID = b.last
	return p.save(ctx, nil)
}

// fixReading saves the clock under which b was read before any of it is published.
// Invariant 4: a repeat after a crash has the same time and so the same bytes.
func (p *publisher) fixReading(ctx context.Context, b *batch) error {
	p.position.Reading = source.Reading{Through: b.last, At: b.readAt}
	done := make(chan struct{})
	if err := p.save(ctx, done); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// save passes the position on. done, when not nil, is closed once it is durable.
func (p *publisher) save(ctx context.Context, done chan struct{}) error {
	if p.position.Reading.Through <= p.position.ID {
		p.position.Reading = source.Reading{}
	}
	byPlace := func(a, b sink.Mark) int { return strings.Compare(a.Place, b.Place) }
	request := save{
		state: checkpoint.State{Position: p.position, Marks: slices.SortedFunc(maps.Values(p.marks), byPlace)},
		done:  done,
	}
	select {
	case p.out <- request:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// saveDone passes on how far b was done without a hole when it is given up: rest is what the last Publish was given, and what b
// held besides was acknowledged or put aside before.
func (p *publisher) saveDone(ctx context.Context, b *batch, rest []sink.Message, outcome *sink.Outcome) error {
	// Invariant 1: the position moves over nothing that is not acknowledged.
	hole := slices.IndexFunc(outcome.Status, func(s sink.Status) bool { return s != sink.Acked })
	if hole < 0 {
		return nil
	}
	first := slices.IndexFunc(b.messages, func(m sink.Message) bool { return m.RowID == rest[hole].RowID })
	if first <= 0 {
		return nil
	}
	p.position.ID = b.messages[first-1].RowID
	return p.save(ctx, nil)
}

// note keeps the marks and counts what became of rest.
func (p *publisher) note(rest []sink.Message, outcome *sink.Outcome) {
	p.noteMarks(outcome.Marks)
	p.shard.opts.Metrics.outcome(p.shard.opts.Stream, rest, outcome)
}

func (p *publisher) noteMarks(marks []sink.Mark) {
	for _, m := range marks {
		if old, ok := p.marks[m.Place]; !ok || old.Incarnation != m.Incarnation || m.Last > old.Last {
			p.marks[m.Place] = m
		}
	}
}

// pending returns the messages that are neither acknowledged nor rejected, in their order.
func pending(rest []sink.Message, outcome *sink.Outcome) []sink.Message {
	var left []sink.Message
	for i, status := range outcome.Status {
		if status == sink.Pending {
			left = append(left, rest[i])
		}
	}
	return left
}

// excerpts are the sizes of dead letters to try, in bytes: the bus may refuse a large one like the message itself.
var excerpts = []int{256 << 10, 32 << 10, 4 << 10, sink.MinDeadLetter}

// bury publishes a dead letter for each rejected message, before anything that comes after it.
func (p *publisher) bury(ctx context.Context, rest []sink.Message, rejected []sink.Rejection) error {
	for _, r := range rejected {
		if err := p.buryOne(ctx, rest[r.Index], r.Reason); err != nil {
			return err
		}
	}
	return nil
}

func (p *publisher) buryOne(ctx context.Context, m sink.Message, reason string) error {
	refused := &sink.RejectedError{Message: m, Reason: reason}
	if p.shard.opts.DeadLetter == "" {
		return refused
	}
	for _, limit := range excerpts {
		letter := sink.DeadLetter(m, p.shard.opts.DeadLetter, reason, limit)
		outcome, err := p.shard.opts.Sink.Publish(ctx, []sink.Message{letter})
		p.noteMarks(outcome.Marks)
		if err != nil {
			return err
		}
		if outcome.AllAcked() {
			p.shard.opts.Metrics.deadLetter(p.shard.opts.Stream)
			p.shard.opts.Logger.Warn("row put aside as a dead letter", "destination", p.shard.opts.DeadLetter,
				"id", m.RowID, "event", m.ID, "bytes", len(m.Value), "reason", reason)
			return nil
		}
	}
	return errors.Join(refused, errors.New("the dead-letter destination "+p.shard.opts.DeadLetter+" refuses it too"))
}
