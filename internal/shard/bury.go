package shard

import (
	"context"
	"errors"
	"time"

	"bridge/sink"
)

// excerpts are the sizes of dead letters to try, in bytes: the bus may refuse a large one like the message itself.
var excerpts = []int{256 << 10, 32 << 10, 4 << 10, sink.MinDeadLetter}

// bury publishes a dead letter for each rejected message of rest, before anything that comes after it, and notes it as acknowledged.
func (p *publisher) bury(ctx context.Context, b *batch, rest []sink.Message, outcome *sink.Outcome) error {
	for _, r := range outcome.Rejected {
		if err := p.buryOne(ctx, b, rest[r.Index], r.Reason); err != nil {
			return err
		}
		outcome.Status[r.Index] = sink.Acked
	}
	return nil
}

func (p *publisher) buryOne(ctx context.Context, b *batch, m sink.Message, reason string) error {
	refused := &sink.RejectedError{Message: m, Reason: reason}
	if p.shard.opts.DeadLetter == "" {
		return refused
	}
	if b.again != nil {
		// It is in the dead letters already, and counts no more.
		b.again.refused(reason)
	} else if err := p.shard.opts.Letters.take(&m, reason, time.Now()); err != nil {
		return err
	}
	entity := b.entityOf(m.ID)
	for _, limit := range excerpts {
		letter := sink.DeadLetter(sink.Refused{Message: m, Reason: reason, Entity: entity}, p.shard.opts.DeadLetter, limit)
		outcome, err := p.send(ctx, []sink.Message{letter})
		p.noteMarks(outcome.Offsets)
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
