package shard

import (
	"context"
	"errors"
	"time"

	"bridge/internal/failpoint"
	"bridge/sink"
)

// sender puts messages on the bus: it waits for a bus that is away and puts aside what the bus
// refuses for good. It serves one goroutine.
type sender struct {
	opts    *Options
	retrier *retrier
	// loop is the one that it runs in.
	loop loop
	// offsets are those of the acknowledgements since fresh was called last.
	offsets []sink.Offset
}

// sendAll sends the messages of b until each is acknowledged or put aside as a dead letter. With an
// error it returns those that are not.
func (s *sender) sendAll(ctx context.Context, b *batch) (left []sink.Message, err error) {
	for left = b.messages; len(left) > 0; {
		outcome, err := s.send(ctx, left)
		s.opts.Metrics.outcome(s.opts.Stream, left, &outcome)
		if err == nil {
			err = s.putAside(ctx, b, left, &outcome)
		}
		left = pending(left, &outcome)
		if err != nil && failpoint.Mutant(failpoint.EndIsAck) {
			return nil, nil
		}
		if err != nil {
			return left, err
		}
	}
	return nil, nil
}

// send publishes messages; an absent bus is waited for.
func (s *sender) send(ctx context.Context, messages []sink.Message) (outcome sink.Outcome, err error) {
	err = s.retrier.wait(s.loop, forEver, func() error {
		failpoint.Pass(failpoint.BeforePublish)
		outcome, err = s.opts.Sink.Publish(ctx, messages)
		failpoint.Pass(failpoint.AfterPublish)
		return err
	})
	s.offsets = append(s.offsets, outcome.Offsets...)
	return outcome, err
}

// fresh returns the offsets of the acknowledgements since it was called last. They are good until
// something is sent.
func (s *sender) fresh() []sink.Offset {
	fresh := s.offsets
	s.offsets = s.offsets[:0]
	return fresh
}

// pending returns the messages that are neither acknowledged nor put aside, in their order.
func pending(rest []sink.Message, outcome *sink.Outcome) []sink.Message {
	var left []sink.Message
	for i, status := range outcome.Status {
		if status != sink.Acked {
			left = append(left, rest[i])
		}
	}
	return left
}

// excerpts are the sizes of dead letters to try, in bytes: the bus may refuse a large one like the
// message itself.
var excerpts = []int{256 << 10, 32 << 10, 4 << 10, sink.MinDeadLetter}

// putAside publishes a dead letter for each rejected message of rest, before anything that comes
// after it, and notes it as acknowledged.
func (s *sender) putAside(ctx context.Context, b *batch, rest []sink.Message, outcome *sink.Outcome) error {
	for _, r := range outcome.Rejected {
		if err := s.putOneAside(ctx, b, rest[r.Index], r.Reason); err != nil {
			return err
		}
		outcome.Status[r.Index] = sink.Acked
	}
	return nil
}

func (s *sender) putOneAside(ctx context.Context, b *batch, m sink.Message, reason string) error {
	refused := &sink.RejectedError{Message: m, Reason: reason}
	if s.opts.DeadLetter == "" {
		return refused
	}
	if b.again != nil {
		// It is a dead letter already, and counts no more.
		b.again.refused(reason)
	} else if err := s.opts.Letters.take(&m, reason, time.Now()); err != nil {
		return err
	}
	entity := b.entityOf(m.ID)
	for _, limit := range excerpts {
		dead := sink.DeadLetter(sink.Refused{Message: m, Reason: reason, Entity: entity}, s.opts.DeadLetter, limit)
		outcome, err := s.send(ctx, []sink.Message{dead})
		if err != nil {
			return err
		}
		if outcome.AllAcked() {
			s.opts.Metrics.deadLetter(s.opts.Stream)
			s.opts.Logger.Warn("row put aside as a dead letter", "destination", s.opts.DeadLetter,
				"id", m.RowID, "event", m.ID, "bytes", len(m.Value), "reason", reason)
			return nil
		}
	}
	return errors.Join(refused, errors.New("the dead-letter destination "+s.opts.DeadLetter+" refuses it too"))
}
