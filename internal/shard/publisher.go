package shard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"bridge/checkpoint"
	"bridge/internal/failpoint"
	"bridge/internal/panics"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// publisher publishes the batches of a shard one after the other and passes on what may be saved. Those of a capability shard go through two
// goroutines: the journal of one is saved while the one before it is published.
type publisher struct {
	shard *Shard
	// loop is the one that it runs in.
	loop loop
	// saving ends when nothing can be saved any more.
	saving context.Context
	out    chan<- save
	// planned is the state behind the last batch that came, numbered the number of the last journal. They belong to the goroutine that writes
	// journals.
	planned  front
	numbered uint64
	// passed is that of the last batch without a journal, nil when a journal came after it.
	passed <-chan struct{}
	// fresh are the marks of the batch that is being published; they belong to the goroutine that publishes.
	fresh []sink.Offset

	// order has requests reach the saver in the order in which they were made: a position never goes back.
	order sync.Mutex
	// mu guards what is below.
	mu sync.Mutex
	// reached is the state behind the last batch that was acknowledged, sent the number of the last journal that was.
	reached front
	sent    uint64
	marks   map[string]sink.Offset
	// unsaved holds what was acknowledged and not passed on to be saved yet, settled what is called then; awaited says that somebody waits
	// for that.
	unsaved *checkpoint.State
	settled []func()
	awaited bool
}

// front is how far a shard has come, as it is saved.
type front struct {
	position ledger.Position
	cursor   source.Cursor
	// taken is when the ledger that is saved last was as it is saved: by it the ages of gaps go on after a restart.
	taken time.Time
}

func newPublisher(s *Shard, state checkpoint.State, saving context.Context, out chan<- save) *publisher {
	begin := frontOf(&state)
	return &publisher{shard: s, loop: publishing, planned: begin, reached: begin, marks: marksByPlace(state.Offsets), saving: saving, out: out}
}

// run publishes every batch from in. It returns nil when in is closed, else why it cannot go on; what was acknowledged up to
// there has been passed on then.
func (p *publisher) run(ctx context.Context, in <-chan *batch) error {
	defer p.shard.status.rest(p.loop)
	if p.shard.view == nil {
		return p.publishAll(ctx, in, in)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ready := make(chan *batch)
	var stages errgroup.Group
	stages.Go(func() error {
		defer close(ready)
		return panics.Guard(func() error { return p.journalAll(ctx, in, ready) })
	})
	stages.Go(func() error {
		err := panics.Guard(func() error { return p.publishAll(ctx, ready, in) })
		stop(err)
		for b := range ready {
			p.forsake(b)
		}
		return err
	})
	return stages.Wait()
}

// forsake frees a batch that is not published, or not all of it. The saver may hold a journal of its messages still: they are left to the garbage collector.
func (p *publisher) forsake(b *batch) {
	p.shard.opts.Limits.release(&b.held)
}

// publishAll publishes the batches from ready, behind which others wait in queue.
func (p *publisher) publishAll(ctx context.Context, ready, queue <-chan *batch) error {
	for b := range ready {
		p.shard.status.turn(p.loop)
		err := p.publish(ctx, b)
		if err == nil && (!b.journal || len(queue) == 0) {
			// Otherwise it goes into the transaction of the next journal, which waits for no bus.
			err = p.flush()
		}
		if err != nil {
			p.forsake(b)
			return errors.Join(err, p.flush())
		}
		p.shard.arrival.acknowledge(p.shard.opts.Logger, len(b.messages), b.last)
		p.shard.discard(b)
		p.shard.status.dequeue()
		p.shard.status.rest(p.loop)
	}
	return p.flush()
}

// publish sends b until all of it is acknowledged or put aside as a dead letter. What was acknowledged of a batch that is given
// up in the middle is published again: its position and its part of the ledger belong together.
func (p *publisher) publish(ctx context.Context, b *batch) error {
	var err error
	if b.journal && b.after == nil && len(b.messages) > 0 {
		// Rows of a release stream that reconcile has found.
		err = p.journal(ctx, b, p.after(b))
	} else {
		err = p.fixTimes(ctx, b)
	}
	if err != nil {
		return err
	}
	if failpoint.Mutant(failpoint.SaveBeforePublish) {
		return p.mutantSaveFirst(ctx, b)
	}
	if failpoint.Mutant(failpoint.MessageLate) {
		b.messages = p.mutantPostpone(b.messages)
	}
	started := time.Now()
	if left, err := p.sendAll(ctx, b); err != nil {
		return errors.Join(err, p.keep(ctx, b, left, err))
	}
	if len(b.messages) > 0 {
		p.shard.opts.Metrics.publish.WithLabelValues(p.shard.opts.Stream).Observe(time.Since(started).Seconds())
	}
	failpoint.Pass(failpoint.BeforeAck)
	p.acknowledge(b)
	failpoint.Pass(failpoint.AfterAck)
	return nil
}

// sendAll sends the messages of b until each is acknowledged or put aside as a dead letter. With an error it returns those that are not.
func (p *publisher) sendAll(ctx context.Context, b *batch) (left []sink.Message, err error) {
	for left = b.messages; len(left) > 0; {
		outcome, err := p.send(ctx, left)
		p.note(left, &outcome)
		if err == nil {
			err = p.bury(ctx, b, left, &outcome)
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

// keep saves what is left of a batch that ends at the limit of dead letters, so that a restart goes on with it instead of filling the limit with
// the same rows again. Invariant 1: the position stays before the batch.
func (p *publisher) keep(ctx context.Context, b *batch, left []sink.Message, err error) error {
	if _, full := errors.AsType[*letterLimitError](err); !full {
		return nil
	}
	p.takeMarks()
	if b.number == 0 {
		p.numbered++
		b.number = p.numbered
	}
	return p.saveNow(ctx, &checkpoint.Journal{Number: b.number, Messages: left, After: p.after(b)})
}

// after is the state that holds once b is acknowledged, without what was there before b.
func (p *publisher) after(b *batch) checkpoint.State {
	if b.after != nil {
		return *b.after
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached.after(b)
}

// after is the state that holds once b is acknowledged behind f, without what was there before b.
func (f front) after(b *batch) checkpoint.State {
	state := checkpoint.State{Position: f.position, Ledger: b.ledger, Saved: f.taken, View: b.changes, Found: b.found, Cursor: f.cursor}
	state.Position.ID, state.Published = b.last, b.published
	if len(b.ledger) > 0 {
		state.Position.Gaps, state.Saved = b.gaps, b.made
	}
	if b.cursor != (source.Cursor{}) {
		state.Cursor = b.cursor
	}
	return state
}

func frontOf(state *checkpoint.State) front {
	return front{position: state.Position, cursor: state.Cursor, taken: state.Saved}
}

// acknowledge notes that b is on the bus.
func (p *publisher) acknowledge(b *batch) {
	state := p.after(b)
	reached := frontOf(&state)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unsaved != nil {
		state = checkpoint.MergeStates(*p.unsaved, state)
	}
	p.raiseMarks()
	// Invariant 1: the position moves over what is acknowledged, and over nothing else. Nothing from here on can fail, so that a
	// journal that is saved after a panic above finds all of it or nothing.
	p.reached, p.unsaved = reached, &state
	p.sent = max(p.sent, b.number)
	if b.passed != nil {
		close(b.passed)
	}
	if b.settled != nil {
		p.settled, p.awaited = append(p.settled, b.settled), true
	}
	if call := b.ledgerCall; call > 0 {
		p.settled = append(p.settled, func() { p.shard.gaps.kept.Store(call) })
	}
	if view, seq := p.shard.view, b.seq; seq > 0 {
		p.settled = append(p.settled, func() { view.saved.Store(seq) })
	}
}

// send publishes messages; an absent bus is waited for.
func (p *publisher) send(ctx context.Context, messages []sink.Message) (outcome sink.Outcome, err error) {
	err = p.shard.retrier.wait(p.loop, forEver, func() error {
		failpoint.Pass(failpoint.BeforePublish)
		outcome, err = p.shard.opts.Sink.Publish(ctx, messages)
		failpoint.Pass(failpoint.AfterPublish)
		return err
	})
	return outcome, err
}

// fixTimes sees to it that the clocks that stand for the times of rows without one are durable before any of b is published.
// Invariant 4: a repeat after a crash has the same times and so the same bytes.
func (p *publisher) fixTimes(ctx context.Context, b *batch) error {
	p.mu.Lock()
	r := p.reached.position.Reading
	newReading := !b.readAt.IsZero() && (r.Through < b.readThrough || !r.At.Equal(b.readAt))
	if newReading {
		p.reached.position.Reading = ledger.Reading{Through: b.readThrough, At: b.readAt}
	}
	p.mu.Unlock()
	if !newReading && !b.lateClock {
		return nil
	}
	return p.saveNow(ctx, nil)
}

// saveNow passes the state on with a journal and returns once both are durable.
func (p *publisher) saveNow(ctx context.Context, journal *checkpoint.Journal) error {
	done := make(chan struct{})
	if err := p.save(journal, func() { close(done) }); err != nil {
		return err
	}
	return p.shard.retrier.wait(p.loop, forEver, func() error {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// flush passes on what was acknowledged and is not passed on yet.
func (p *publisher) flush() error {
	p.mu.Lock()
	nothing := p.unsaved == nil
	p.mu.Unlock()
	if nothing {
		return nil
	}
	return p.save(nil, nil)
}

// save passes the state on; done, when not nil, is called once it is durable.
func (p *publisher) save(journal *checkpoint.Journal, done func()) error {
	p.order.Lock()
	defer p.order.Unlock()
	request := p.request(journal)
	if done != nil {
		request.done, request.patient = append(request.done, done), false
	}
	return p.shard.retrier.wait(p.loop, forEver, func() error {
		select {
		case p.out <- request:
			return nil
		case <-p.saving.Done():
			return context.Cause(p.saving)
		}
	})
}

// request takes all that is not passed on yet.
func (p *publisher) request(journal *checkpoint.Journal) save {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reached.position.Reading.Through <= p.reached.position.ID {
		p.reached.position.Reading = ledger.Reading{}
	}
	request := save{done: p.settled, patient: p.shard.view != nil && !p.awaited}
	if p.unsaved != nil {
		request.state = *p.unsaved
	}
	request.state.Position, request.state.Cursor, request.state.Saved = p.reached.position, p.reached.cursor, p.reached.taken
	request.state.Offsets = sorted(p.marks)
	// The journals of what is acknowledged go with the save of it.
	request.state.Keep = p.sent + 1
	if journal != nil {
		request.state.Journals = []*checkpoint.Journal{journal}
	}
	p.unsaved, p.settled, p.awaited = nil, nil, false
	return request
}

// note keeps the marks and counts what became of rest.
func (p *publisher) note(rest []sink.Message, outcome *sink.Outcome) {
	p.noteMarks(outcome.Offsets)
	p.shard.opts.Metrics.outcome(p.shard.opts.Stream, rest, outcome)
}

func (p *publisher) noteMarks(marks []sink.Offset) { p.fresh = append(p.fresh, marks...) }

// takeMarks has the marks of what was acknowledged be saved: those of a batch with the batch, since in a copy of the file what lies before them
// must not be in a journal.
func (p *publisher) takeMarks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.raiseMarks()
}

// raiseMarks is takeMarks for a caller that holds mu.
func (p *publisher) raiseMarks() {
	fresh := p.fresh
	p.fresh = p.fresh[:0]
	p.shard.raise(p.marks, fresh)
}

// raise takes fresh marks over into marks, and those that have waited, and reports whether it did. They wait until all topics of the shard are
// settled, see [Recalls].
func (s *Shard) raise(marks map[string]sink.Offset, fresh []sink.Offset) bool {
	for _, m := range fresh {
		put(s.waiting, m)
	}
	if len(s.waiting) == 0 {
		return false
	}
	for _, some := range []map[string]sink.Offset{marks, s.waiting} {
		for place := range some {
			if !s.opts.Recalls.settled(place) {
				return false
			}
		}
	}
	for _, m := range s.waiting {
		put(marks, m)
	}
	clear(s.waiting)
	return true
}

// put puts a mark among others, unless it is lower than the one that is there.
func put(marks map[string]sink.Offset, m sink.Offset) {
	if old, ok := marks[m.TP]; !ok || old.Incarnation != m.Incarnation || m.Last > old.Last {
		marks[m.TP] = m
	}
}

func marksByPlace(list []sink.Offset) map[string]sink.Offset {
	marks := make(map[string]sink.Offset, len(list))
	for _, m := range list {
		marks[m.TP] = m
	}
	return marks
}

func sorted(marks map[string]sink.Offset) []sink.Offset {
	return slices.SortedFunc(maps.Values(marks), func(a, b sink.Offset) int { return strings.Compare(a.TP, b.TP) })
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
