package catchup

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bridge/internal/backoff"
	"bridge/sink"
)

// A reading that has not gone on for stillFirst is looked at, and then less and less often.
const (
	stillFirst = 5 * time.Second
	stillMax   = time.Minute
)

// slot bounds how many TPs are read side by side. One that waits for its bus gives its slot up, and
// has it back before the next message: so a TP that does not answer holds up no other (rule 14).
type slot struct {
	slots chan struct{}
	// steps counts the beginnings and the ends of messages: it is odd while one is accepted. Its
	// highest bit says that the slot was given up.
	steps atomic.Uint64
}

const givenUp = 1 << 63

// begin has the slot while a message is accepted, until end.
func (s *slot) begin(ctx context.Context) error {
	if s.steps.Add(1)&givenUp == 0 {
		return nil
	}
	if _, err := backoff.Acquire(ctx, s.slots); err != nil {
		return err
	}
	s.steps.And(givenUp - 1)
	return nil
}

func (s *slot) end() { s.steps.Add(1) }

// still gives the slot up where no message has come since steps was before, and reports that.
func (s *slot) still(before uint64) bool {
	if before&1 != 0 || s.steps.Load()&^givenUp != before&^givenUp {
		return false
	}
	if before&givenUp == 0 && s.steps.CompareAndSwap(before, before|givenUp) {
		<-s.slots
	}
	return true
}

// free ends the use of the slot. Nobody else uses it any more.
func (s *slot) free() {
	if s.steps.Load()&givenUp == 0 {
		<-s.slots
	}
}

// watch returns a context for a reading of span. It ends with errMoved where the TP has lost the
// messages that the reading waits for: it was looked up before, and ends before span does. Call end
// once the reading has ended.
func (r *reading) watch(ctx context.Context, span sink.Span) (reading context.Context, end func()) {
	reading, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		pause := backoff.Backoff{First: stillFirst, Max: stillMax}
		before, short := r.slot.steps.Load(), 0
		for pause.Wait(reading) == nil {
			if !r.slot.still(before) {
				pause.Reset()
				before, short = r.slot.steps.Load(), 0
				continue
			}
			before = r.slot.steps.Load()
			if !r.endsBefore(reading, span) {
				short = 0
			} else if short++; short > 1 {
				// A new leader may know less for a moment.
				cancel(errMoved)
			}
		}
	})
	return reading, func() { cancel(nil); watching.Wait() }
}

// endsBefore reports whether the TP ends before span does.
func (r *reading) endsBefore(ctx context.Context, span sink.Span) bool {
	tps, err := r.c.opts.Reader.TPs(ctx, r.feeds[0].Destinations)
	i := slices.IndexFunc(tps, func(tp sink.TP) bool { return tp.Name == span.TP })
	return err == nil && i >= 0 && tps[i].End < span.To
}
