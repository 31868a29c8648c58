package shard

import (
	"context"
	"math/rand/v2"
	"time"

	"bridge/event"
	"bridge/internal/failpoint"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// own is the owner's loop: it reads the shard page by page behind position and hands each on as a batch, then what was
// modified in place, and whatever is nominated. It returns nil when ctx ends.
func (s *Shard) own(ctx context.Context, position ledger.Position, out chan<- *batch) error {
	s.tail.position = position
	if err := s.idWatch.refuse(ctx, position.ID); err != nil {
		return ended(ctx, err)
	}
	// Shards that start together do not begin together.
	poll := time.NewTimer(rand.N(s.opts.PollInterval + 1))
	defer poll.Stop()
	// Invariant 7: nothing is read, and no memory is held, beyond the end.
	ctx, cancel := context.WithCancel(ctx)
	defer s.reader.dropAhead()
	defer cancel()
	for {
		failpoint.Pass(failpoint.OwnerTurn)
		// Until the next poll it may be an hour.
		s.status.rest(owning)
		select {
		case <-ctx.Done():
			return nil
		case n := <-s.nominator.nominated:
			s.status.turn(owning)
			if err := s.nominations.handle(ctx, n, out); err != nil {
				return ended(ctx, err)
			}
			continue
		case <-poll.C:
			s.status.turn(owning)
		}
		began := time.Now()
		more, err := s.poll(ctx, out)
		if err != nil {
			return ended(ctx, err)
		}
		poll.Reset(time.Until(s.nextPoll(began, more)))
	}
}

// poll looks once for what the tail and the second cursor find. It reports whether there may be more to read at once.
func (s *Shard) poll(ctx context.Context, out chan<- *batch) (more bool, err error) {
	began := time.Now()
	if !s.server.tailless() {
		if more, err = s.turn(ctx, out); err != nil {
			return false, err
		}
	} else if err := s.ping(ctx); err != nil {
		return false, err
	}
	if err := s.republish(ctx, s.published.takeAgain(), sink.FromReconcile, nil, out); err != nil {
		return false, err
	}
	s.progress.note(s.tail.position.ID, more)
	err = s.follow(ctx, out)
	if err == nil {
		s.status.looked(began)
	}
	return more, err
}

// ended tells an error that the end of ctx caused from one that stops the shard.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// turn reads one page, hands on what is old enough of it and moves position behind that. It reports whether there may
// be more to read at once.
func (s *Shard) turn(ctx context.Context, out chan<- *batch) (more bool, err error) {
	p, held, err := s.readTail(ctx)
	defer func() { s.opts.Limits.release(&held) }()
	if err != nil || p == nil {
		return false, err
	}
	b, more, bad, err := s.next(ctx, p, &held)
	if err != nil || b == nil {
		return more, err
	}
	b.held, held = held, hold{}
	if b.empty() {
		s.tail.leave(time.Time{})
		s.discard(b)
		return more, bad
	}
	s.tail.advance(b)
	// Until it is handed over what it holds waits, too.
	s.tail.leave(b.oldest)
	err = s.handOver(ctx, b, out)
	s.tail.leave(time.Time{})
	if err != nil {
		return false, err
	}
	return more, bad
}

// readTail returns the page behind position, and the share that it is to become a batch in. There is no page where the highest id
// shows nothing behind position and the turn has nothing else to do.
func (s *Shard) readTail(ctx context.Context) (p *page, held hold, err error) {
	q := s.tail.query()
	if p, held, err = s.reader.pageAhead(q); p == nil && err == nil {
		p, held, err = s.readPage(ctx, q)
	}
	if p != nil {
		p.seen = &s.tail.heights
	}
	return p, held, err
}

func (s *Shard) readPage(ctx context.Context, q source.Query) (p *page, held hold, err error) {
	drained, err := s.drained(ctx)
	if err != nil {
		return nil, hold{}, err
	}
	if drained != nil && !s.owes() {
		return nil, hold{}, s.idle(ctx, drained)
	}
	if held, err = s.reader.reserve(ctx); err != nil {
		drained.free()
		return nil, hold{}, err
	}
	if drained != nil {
		return drained, held, nil
	}
	p, err = s.reader.page(ctx, q)
	return p, held, err
}

// drained returns a page without rows where the highest id shows nothing behind position, else nil.
func (s *Shard) drained(ctx context.Context) (*page, error) {
	if s.tail.position.Bounded() {
		return nil, nil
	}
	p, err := s.head(ctx)
	if p != nil && p.MaxID > s.tail.position.ID {
		p.free()
		return nil, nil
	}
	return p, err
}

// next makes a batch of p, the page behind position, which it frees. bad is why the batch ends early, for good.
func (s *Shard) next(ctx context.Context, p *page, held *hold) (b *batch, more bool, bad, err error) {
	position := s.tail.position
	bounded := position.Bounded()
	var late *page
	// Before the batch waits for its turn: what it needs of the page is copied.
	free := func() {
		p.free()
		late.free()
		p, late = nil, nil
	}
	defer free()
	ready, err := s.idWatch.check(ctx, p, position.ID)
	if err != nil {
		return nil, false, nil, err
	}
	if !ready {
		s.tail.postpone(p)
		return nil, p.More, nil, nil
	}
	if err := s.server.meet(ctx, p.Server); err != nil {
		return nil, false, nil, err
	}
	at := s.tail.see(p)
	if len(p.Rows) > 0 || s.status.hot() {
		s.pace.touch()
	}
	records, late, err := s.tail.pick(ctx, p, at)
	if err != nil {
		return nil, false, nil, err
	}
	s.gaps.show(at)
	whole := len(records) > 0 && len(records) == len(p.Rows)
	s.tail.prefetchNext(ctx, p, records, s.changes != nil)
	b, bad = s.encode(ctx, p, records, late, position.Reading)
	if !s.opts.Limits.settle(held, b.size()) {
		s.drop(b)
		s.tail.holdRest(p, records, 0)
		s.tail.leave(time.Time{})
		// Invariant 7: what is read again does not wait beside others.
		free()
		return nil, true, nil, s.reader.reserveBig(ctx, held)
	}
	if err := s.gaps.advance(b, at); err != nil {
		s.drop(b)
		return nil, false, nil, err
	}
	if bounded && len(p.Rows) == 0 {
		s.tail.dropReading()
		more = true
	}
	if whole && (p.More || bounded) {
		more = true
		// What comes next is hardly older.
		s.tail.holdRest(p, records, len(records)-1)
	}
	if bad != nil {
		s.tail.holdRest(p, records, len(b.passed))
		s.tail.holdLate(late, len(b.filled))
	}
	if s.tail.moreLate(len(b.filled) > 0, late) {
		more = true
		// What comes next is hardly older.
		s.tail.holdLate(late, len(late.Rows)-1)
	}
	return b, more && bad == nil, bad, nil
}

// encode makes a batch of the records of the page, and behind them of the late ones, which were read after it.
// Invariant 3: the order of the reads is the order on the bus. Where a record cannot be encoded the batch ends before
// it and the error says why.
func (s *Shard) encode(ctx context.Context, p *page, records []source.Row, late *page, reading ledger.Reading) (*batch, error) {
	b := s.newBatch()
	if err := s.encodeTail(ctx, b, p, records, reading); err != nil {
		return b, err
	}
	if late == nil || late.Columns != p.Columns {
		// Altered between the two reads: the gaps stay, the next poll reads them again.
		s.tail.holdLate(late, 0)
		return b, nil
	}
	return b, s.encodeLate(ctx, b, late)
}

// newBatch begins a batch.
func (s *Shard) newBatch() *batch { return s.builder.begin(s.view != nil) }

func (s *Shard) encodeTail(ctx context.Context, b *batch, p *page, records []source.Row, reading ledger.Reading) error {
	if s.view != nil {
		s.changes.noteTail(p, records)
		decisions, err := s.view.decide(ctx, b, records)
		if err != nil {
			return err
		}
		n, err := s.builder.addStates(b, p, records, decisions, sink.FromTail)
		b.passed = appendIDs(b.passed, records[:n])
		first := max(0, n-s.published.log.Limit())
		for i, record := range records[first:n] {
			one := &decisions[first+i]
			s.published.note(b, p.Columns, record, one.digest, one.entity)
		}
		return err
	}
	s.builder.makeRoom(b, len(records))
	for i, record := range records {
		b.born(p, record)
		row := event.Row{Row: record, Read: p.Now}
		if reading.Covers(record.ID) {
			// Invariant 4: what may have been sent before a crash is sent again with the same bytes.
			row.Read = reading.At
		}
		e, err := s.builder.add(b, row, sink.FromTail)
		if err != nil {
			return err
		}
		b.passed = append(b.passed, record.ID)
		if len(records)-i <= s.published.log.Limit() {
			s.published.note(b, p.Columns, record, e.Digest, nil)
		}
		if e.FromClock {
			b.readAt, b.readThrough = row.Read, record.ID
		}
	}
	return nil
}

func (s *Shard) encodeLate(ctx context.Context, b *batch, late *page) error {
	// The late page may have been read long after the other, when the source was away in between: its ages are others.
	b.oldestCreated = nil
	if s.view != nil {
		decisions, err := s.view.decide(ctx, b, late.Rows)
		if err != nil {
			return err
		}
		n, err := s.builder.addStates(b, late, late.Rows, decisions, sink.FromLate)
		b.filled = appendIDs(b.filled, late.Rows[:n])
		return err
	}
	for _, record := range late.Rows {
		b.born(late, record)
		e, err := s.builder.add(b, event.Row{Row: record, Read: s.gaps.readAt(record.ID)}, sink.FromLate)
		if err != nil {
			return err
		}
		b.filled = append(b.filled, record.ID)
		b.lateClock = b.lateClock || e.FromClock
	}
	return nil
}

// handOver gives b to the publisher and waits while that is busy: a slow bus slows reading down.
func (s *Shard) handOver(ctx context.Context, b *batch, out chan<- *batch) error {
	s.builder.finish(b)
	s.status.queue(b.oldest)
	s.published.hand(b)
	if s.view != nil {
		s.view.hand(b)
	}
	b.cursor = s.changes.handOver()
	tick := time.NewTicker(s.opts.TurnEvery)
	defer tick.Stop()
	for {
		select {
		case out <- b:
			return nil
		case <-ctx.Done():
			s.status.takeBack()
			s.discard(b)
			return context.Cause(ctx)
		case <-tick.C:
			s.status.turn(owning)
			s.reader.dropStale()
		}
	}
}

// drop frees a batch that is made again.
func (s *Shard) drop(b *batch) {
	if s.view != nil {
		s.view.drop(b)
	}
	b.recycle()
}

// discard frees a batch that is not published.
func (s *Shard) discard(b *batch) {
	s.opts.Limits.release(&b.held)
	b.recycle()
}
