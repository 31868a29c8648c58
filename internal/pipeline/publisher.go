package pipeline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"bridge/checkpoint"
	"bridge/internal/failpoint"
	"bridge/sink"
	"bridge/source"
)

// publisher publishes the batches of a shard one after the other and passes on what may be saved.
type publisher struct {
	shard *Shard
	// loop is the one that it runs in.
	loop     loop
	position source.Position
	cursor   source.Cursor
	marks    map[string]sink.Mark
	// taken is when the ledger that is saved last was as it is saved: by it the ages of gaps go on after a restart.
	taken time.Time
	// unsaved holds what was acknowledged and not passed on to be saved yet, settled who waits for that.
	unsaved *checkpoint.State
	settled []func()
	// saving ends when nothing can be saved any more.
	saving context.Context
	out    chan<- save
}

func newPublisher(s *Shard, state checkpoint.State, saving context.Context, out chan<- save) *publisher {
	marks := make(map[string]sink.Mark, len(state.Marks))
	for _, m := range state.Marks {
		marks[m.Place] = m
	}
	return &publisher{shard: s, loop: publishing, position: state.Position, cursor: state.Cursor, marks: marks, taken: state.Saved, saving: saving, out: out}
}

// run publishes every batch from in. It returns nil when in is closed, else why it cannot go on; what was acknowledged up to
// there has been passed on then.
func (p *publisher) run(ctx context.Context, in <-chan *batch) error {
	defer p.shard.status.rest(p.loop)
	for b := range in {
		p.shard.status.turn(p.loop)
		err := p.publish(ctx, b)
		if err == nil && (!b.journal || len(in) == 0) {
			// Otherwise it goes into the transaction of the next journal.
			err = p.flush()
		}
		if err != nil {
			// The saver may hold a journal of its messages still: they are left to the garbage collector.
			p.shard.opts.Limits.release(&b.held)
			return errors.Join(err, p.flush())
		}
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
	if b.journal && len(b.messages) > 0 {
		err = p.writeAhead(ctx, b)
	} else {
		err = p.fixTimes(ctx, b)
	}
	if err != nil {
		return err
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
	return p.saveNow(ctx, &checkpoint.Journal{Messages: left, After: p.after(b)})
}

// after is the state that holds once b is acknowledged, without what was there before b.
func (p *publisher) after(b *batch) checkpoint.State {
	state := checkpoint.State{Position: p.position, Ledger: b.ledger, Saved: p.taken, View: b.changes, Given: b.given, Found: b.found, Cursor: p.cursor}
	state.Position.ID = b.last
	if len(b.ledger) > 0 {
		state.Position.Gaps, state.Saved = b.gaps, b.made
	}
	if b.cursor != (source.Cursor{}) {
		state.Cursor = b.cursor
	}
	return state
}

// acknowledge notes that b is on the bus.
func (p *publisher) acknowledge(b *batch) {
	state := p.after(b)
	// Invariant 1: the position moves over what is acknowledged, and over nothing else.
	p.position, p.cursor, p.taken = state.Position, state.Cursor, state.Saved
	if p.unsaved != nil {
		state = checkpoint.MergeStates(*p.unsaved, state)
	}
	p.unsaved = &state
	if b.settled != nil {
		p.settled = append(p.settled, b.settled)
	}
	if view, seq := p.shard.view, b.seq; seq > 0 {
		p.settled = append(p.settled, func() { view.saved.Store(seq) })
	}
}

// send publishes messages; an absent bus is waited for.
func (p *publisher) send(ctx context.Context, messages []sink.Message) (outcome sink.Outcome, err error) {
	err = p.shard.alive(p.loop, forEver, func() error {
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
	r := p.position.Reading
	newReading := !b.readAt.IsZero() && (r.Through < b.readThrough || !r.At.Equal(b.readAt))
	if newReading {
		p.position.Reading = source.Reading{Through: b.readThrough, At: b.readAt}
	}
	if !newReading && !b.lateClock {
		return nil
	}
	return p.saveNow(ctx, nil)
}

// writeAhead makes b durable before any of it is published, together with what the batch before it left to be saved.
// Invariant 6: after a kill the batch is sent again as it stands, whatever has become of its rows.
func (p *publisher) writeAhead(ctx context.Context, b *batch) error {
	failpoint.Pass(failpoint.BeforeJournal)
	err := p.saveNow(ctx, &checkpoint.Journal{Messages: b.messages, After: p.after(b)})
	failpoint.Pass(failpoint.AfterJournal)
	return err
}

// saveNow passes the state on with a journal and returns once both are durable.
func (p *publisher) saveNow(ctx context.Context, journal *checkpoint.Journal) error {
	done := make(chan struct{})
	if err := p.save(journal, func() { close(done) }); err != nil {
		return err
	}
	return p.shard.alive(p.loop, forEver, func() error {
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
	if p.unsaved == nil {
		return nil
	}
	return p.save(nil, nil)
}

// save passes the state on; done, when not nil, is called once it is durable.
func (p *publisher) save(journal *checkpoint.Journal, done func()) error {
	if p.position.Reading.Through <= p.position.ID {
		p.position.Reading = source.Reading{}
	}
	request := save{done: p.settled}
	if p.unsaved != nil {
		request.state = *p.unsaved
	}
	request.state.Position, request.state.Cursor, request.state.Saved = p.position, p.cursor, p.taken
	request.state.Marks, request.state.Journal = p.sortedMarks(), journal
	if done != nil {
		request.done = append(request.done, done)
	}
	p.unsaved, p.settled = nil, nil
	return p.shard.alive(p.loop, forEver, func() error {
		select {
		case p.out <- request:
			return nil
		case <-p.saving.Done():
			return context.Cause(p.saving)
		}
	})
}

func (p *publisher) sortedMarks() []sink.Mark {
	byPlace := func(a, b sink.Mark) int { return strings.Compare(a.Place, b.Place) }
	return slices.SortedFunc(maps.Values(p.marks), byPlace)
}

// note keeps the marks and counts what became of rest.
func (p *publisher) note(rest []sink.Message, outcome *sink.Outcome) {
	p.noteMarks(outcome.Marks)
	p.shard.opts.Metrics.outcome(p.shard.opts.Stream, rest, outcome)
}

func (p *publisher) noteMarks(marks []sink.Mark) {
	for _, m := range marks {
		if !p.shard.opts.Recalls.settled(m.Place) {
			continue
		}
		if old, ok := p.marks[m.Place]; !ok || old.Incarnation != m.Incarnation || m.Last > old.Last {
			p.marks[m.Place] = m
		}
	}
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
