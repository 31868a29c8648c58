package shard_test

import (
	"context"
	"slices"
	"testing"

	"bridge/internal/shard"
	"bridge/sink"
	"bridge/sink/memory"
)

// wholeSink takes batches as a whole, as sink.Transactional says, on a bus in memory. It refuses
// messages for which refuse returns true.
type wholeSink struct {
	*memory.Sink
	refuse func(*sink.Message) bool
	// batches are those that were stored.
	batches [][]sink.Message
}

var _ sink.Transactional = (*wholeSink)(nil)

func (s *wholeSink) Fence(context.Context) error { return nil }

func (s *wholeSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	nothing := sink.Outcome{Status: make([]sink.Status, len(batch))}
	for i := range batch {
		if s.refuse != nil && s.refuse(&batch[i]) {
			nothing.Status[i] = sink.Rejected
			nothing.Rejected = append(nothing.Rejected, sink.Rejection{Index: i, Reason: "too large"})
		}
	}
	if len(nothing.Rejected) > 0 {
		return nothing, nil
	}
	out, err := s.Sink.Publish(ctx, batch)
	if err != nil {
		return nothing, err
	}
	s.batches = append(s.batches, slices.Clone(batch))
	return out, nil
}

func TestABatchIsSentAsAWhole(t *testing.T) {
	t.Run("with dead letters instead of refused rows, and smaller ones where those are refused", func(t *testing.T) {
		b := newBench(t)
		s := &wholeSink{Sink: b.bus}
		large := 0
		s.refuse = func(m *sink.Message) bool {
			if m.Destination == deadTopic {
				large++
				return large == 1
			}
			return m.RowID == 2 || m.RowID == 4
		}
		b.sink, b.opts.Whole, b.opts.DeadLetter = s, true, deadTopic
		b.insert(5)
		_, stop := b.run(t)
		eventually(t, "saved", func() bool { return b.position(t) == 5 })
		stop()
		if got := b.ids(topic); !slices.Equal(got, []uint64{1, 3, 5}) || b.count(deadTopic) != 2 {
			t.Errorf("published %v, with %d dead letters", got, b.count(deadTopic))
		}
		var rows []uint64
		for _, m := range s.batches[0] {
			rows = append(rows, m.RowID)
		}
		if len(s.batches) != 1 || !slices.Equal(rows, []uint64{1, 2, 3, 4, 5}) {
			t.Errorf("%d batches, the first is of rows %v", len(s.batches), rows)
		}
	})
	t.Run("a refused row without a dead-letter destination stops the shard behind those before it", func(t *testing.T) {
		b := newBench(t)
		b.sink, b.opts.Whole = &wholeSink{Sink: b.bus, refuse: func(m *sink.Message) bool { return m.RowID == 3 }}, true
		b.insert(5)
		s, stop := b.run(t)
		eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
		stop()
		expectRun(t, b.ids(topic), 1, 2)
	})
}
