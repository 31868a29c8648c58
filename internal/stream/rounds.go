package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/client/backoff"
	"example.org/bridge/sink"
)

// errMoved says that a TP is not as it was looked up: it is to be looked up again.
var errMoved = errors.New("the topic or stream has changed meanwhile")

// rounds reads all TPs of a stream to the ends that they have now, as often as one of them is found
// to be another one meanwhile.
func (s *stream) rounds(ctx context.Context, all bool) error {
	var pause backoff.Backoff
	for {
		err := s.round(ctx, all)
		if !errors.Is(err, errMoved) {
			return err
		}
		all = true
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

func (s *stream) round(ctx context.Context, all bool) error {
	list, err := s.c.registrar.lookup(ctx, s, all)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range list {
		f := &list[i]
		end := f.End
		if s.c.opts.Fence != nil && !s.c.fenced.Load() || !s.c.isTurn() {
			// What lies beyond may wait for a transaction of a former process, which Fence ends, or
			// is read in the next round.
			end = f.Stable
		}
		if f.Stable < end {
			s.c.opts.Log.Info("catch-up waits for the end of a transaction of somebody", "stream", s.Name, "tp", f.Name, "offset", f.Stable)
		}
		g.Go(func() error { return s.readTo(ctx, f.t, end) })
	}
	return g.Wait()
}

// readTo reads a TP until nothing below end is left to read for a stream.
//
// Rule 4: a message of ours that is in flight stops it, until its outcome is known. That wait ends,
// though the caller of Resolve waits here: nobody who has a batch in flight waits for it. A shard
// calls Resolve behind Unknown, so it has nothing in flight itself; a batch in flight is that of a
// shard within Publish or Acknowledged, and both end without Resolve. No lock is held during the
// wait: neither the TP's, nor a worker's slot, nor the stream's, nor the Committer's. Feed.Apply,
// which is called here, waits for no owner (see Feed). And what is seen in flight does not hide a
// change: the channel is made before the look.
func (s *stream) readTo(ctx context.Context, t *topicPartition, end uint64) error {
	for {
		changed, left := s.c.committer.change(), false
		err := s.c.committer.disk.untilRead(ctx, s, partTP+t.name, func() (err error) {
			left, err = s.readOnce(ctx, t, end, nil)
			return err
		})
		switch {
		case errors.Is(err, errInFlight):
			select {
			case <-changed:
			case <-s.stopped:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case err != nil:
			return err
		case !left:
			return nil
		}
	}
}

// readOnce reads of a TP what is left first for a stream, below end. A budget bounds the messages.
// It reports whether something may be left.
func (s *stream) readOnce(ctx context.Context, t *topicPartition, end uint64, budget *int) (left bool, err error) {
	release, err := backoff.Acquire(ctx, t.reading)
	if err != nil {
		return false, err
	}
	defer release()
	if _, err := backoff.Acquire(ctx, s.c.slots); err != nil {
		return false, err
	}
	slot := &slot{slots: s.c.slots}
	defer slot.free()
	r, span, err := s.plan(t, end)
	if r == nil || err != nil {
		return false, err
	}
	r.budget, r.slot = budget, slot
	err = r.read(ctx, span)
	for _, f := range r.feeds {
		t.cursors[f.number] = max(t.cursors[f.number], f.from)
	}
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err == nil && r.feed(s) == nil:
		return true, r.unread
	case errors.Is(err, sink.ErrGone), errors.Is(err, sink.ErrBehind), errors.Is(err, sink.ErrExpired):
		return false, fmt.Errorf("%w: %w", errMoved, err)
	case errors.Is(err, errAllStopped):
		return false, s.failure()
	}
	return true, err
}

// plan returns a reading of what is left first for a stream below end, for all streams that have
// read the TP that far; nil where nothing is left.
func (s *stream) plan(t *topicPartition, end uint64) (*reading, sink.Span, error) {
	if err := s.failure(); err != nil {
		return nil, sink.Span{}, err
	}
	f, incarnation, hole := s.feedOf(t, end)
	if f == nil || hole.From >= min(hole.To, end) {
		return nil, sink.Span{}, nil
	}
	r := &reading{c: s.c, tp: t, own: s.c.Epoch().Number(), known: s.c.known, feeds: []*served{f}, before: f.before(t, hole)}
	for _, o := range s.c.order {
		if o == s || o.failure() != nil || o.partitions() == nil {
			continue
		}
		// One that has something to read below would get its messages in another order.
		f, other, first := o.feedOf(t, end)
		if f != nil && other == incarnation && first.From >= hole.From && !s.c.registrar.isWrong(f.number) {
			r.feeds, r.before = append(r.feeds, f), min(r.before, f.before(t, first))
		}
	}
	return r, sink.Span{TP: t.name, Incarnation: incarnation, From: hole.From, To: min(hole.To, end)}, nil
}

// feedOf returns the feed of a stream for a TP, and what is left to be read first; nil where the
// stream has not registered the TP.
func (s *stream) feedOf(t *topicPartition, end uint64) (f *served, incarnation string, first Range) {
	covered := s.c.committer.snapshot(s.Name, t.name)
	if covered == nil {
		return nil, "", Range{}
	}
	f = &served{stream: s, number: covered.Number, epoch: covered.Epoch, met: covered.Epoch, covered: covered, caughtUp: s.isReady()}
	if f.caughtUp {
		if end != sink.NoEnd {
			covered.end = max(covered.end, end)
		}
		first, _ = covered.hole(0)
	} else {
		// Start reads on behind messages with another hash, which it leaves as holes.
		f.cursor = max(t.cursors[f.number], covered.Next)
		first = Range{From: f.cursor, To: end}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.reread = s.rereads[f.number]
	return f, covered.Incarnation, first
}

// A reading that has not gone on for stillFirst is looked at, and then less and less often.
const (
	stillFirst = 5 * time.Second
	stillMax   = time.Minute
)

// slot bounds how many TPs are read side by side. One that waits for its bus gives its slot up, and
// has it back before the next message: so a TP that does not answer holds up no other (rule 14).
type slot struct {
	slots chan struct{}
	// mu is held while a message is accepted. idle says that none was since freeIfIdle was called
	// last, gone that the slot was given up.
	mu         sync.Mutex
	idle, gone bool
}

func (s *slot) begin(ctx context.Context) (err error) {
	s.mu.Lock()
	if s.idle = false; s.gone {
		_, err = backoff.Acquire(ctx, s.slots)
		s.gone = err != nil
	}
	return err
}

func (s *slot) end() { s.mu.Unlock() }

// freeIfIdle gives the slot up, and reports so, if no message has come since it was called last.
func (s *slot) freeIfIdle() bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	if s.idle && !s.gone {
		s.free()
		s.gone = true
	}
	was := s.idle
	s.idle = true
	return was
}

func (s *slot) free() {
	if !s.gone {
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
		r.slot.freeIfIdle()
		for short := 0; pause.Wait(reading) == nil; {
			if !r.slot.freeIfIdle() {
				pause.Reset()
				short = 0
				continue
			}
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

func (r *reading) endsBefore(ctx context.Context, span sink.Span) bool {
	tps, err := r.c.opts.Reader.TPs(ctx, r.feeds[0].Destinations)
	i := slices.IndexFunc(tps, func(tp sink.TP) bool { return tp.Name == span.TP })
	return err == nil && i >= 0 && tps[i].End < span.To
}
