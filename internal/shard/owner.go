package shard

import (
	"context"
	"math/rand/v2"
	"slices"
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
	if err := s.refuseReusedIDs(ctx, position.ID); err != nil {
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
		case n := <-s.nominated:
			s.status.turn(owning)
			if err := s.nominations.handle(ctx, n, out); err != nil {
				return ended(ctx, err)
			}
			continue
		case <-poll.C:
			s.status.turn(owning)
		}
		began := time.Now()
		more, err := s.poll(ctx, &position, out)
		if err != nil {
			return ended(ctx, err)
		}
		poll.Reset(time.Until(s.nextPoll(began, more)))
	}
}

// poll looks once for what the tail and the second cursor find. It reports whether there may be more to read at once.
func (s *Shard) poll(ctx context.Context, position *ledger.Position, out chan<- *batch) (more bool, err error) {
	began := time.Now()
	if !s.server.tailless() {
		if more, err = s.turn(ctx, position, out); err != nil {
			return false, err
		}
	} else if err := s.ping(ctx); err != nil {
		return false, err
	}
	if err := s.published.publishAgain(ctx, out); err != nil {
		return false, err
	}
	s.catchUp(position.ID, more)
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
func (s *Shard) turn(ctx context.Context, position *ledger.Position, out chan<- *batch) (more bool, err error) {
	p, held, err := s.readTail(ctx, *position)
	defer func() { s.opts.Limits.release(&held) }()
	if err != nil || p == nil {
		return false, err
	}
	b, more, bad, err := s.next(ctx, position, p, &held)
	if err != nil || b == nil {
		return more, err
	}
	b.held, held = held, hold{}
	if b.empty() {
		s.status.leave(findTail, s.held)
		s.discard(b)
		return more, bad
	}
	position.ID = b.last
	s.heights.pass(b.last)
	// Until it is handed over what it holds waits, too.
	s.status.leave(findTail, earlier(s.held, b.oldest))
	err = s.handOver(ctx, b, out)
	s.status.leave(findTail, s.held)
	if err != nil {
		return false, err
	}
	return more, bad
}

// readTail returns the page behind position, and the share that it is to become a batch in. There is no page where the highest id
// shows nothing behind position and the turn has nothing else to do.
func (s *Shard) readTail(ctx context.Context, position ledger.Position) (p *page, held hold, err error) {
	q := s.reader.pageAfter(position)
	if p, held, err = s.reader.pageAhead(q); p == nil && err == nil {
		p, held, err = s.readPage(ctx, q, position)
	}
	if p != nil {
		p.seen = &s.heights
	}
	return p, held, err
}

func (s *Shard) readPage(ctx context.Context, q source.Query, position ledger.Position) (p *page, held hold, err error) {
	drained, err := s.drained(ctx, position)
	if err != nil {
		return nil, hold{}, err
	}
	if drained != nil && !s.owes() {
		return nil, hold{}, s.idle(ctx, drained, position.ID)
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
func (s *Shard) drained(ctx context.Context, position ledger.Position) (*page, error) {
	if position.Bounded() {
		return nil, nil
	}
	p, err := s.head(ctx)
	if p != nil && p.MaxID > position.ID {
		p.free()
		return nil, nil
	}
	return p, err
}

// next makes a batch of p, the page behind position, which it frees. bad is why the batch ends early, for good.
func (s *Shard) next(ctx context.Context, position *ledger.Position, p *page, held *hold) (b *batch, more bool, bad, err error) {
	bounded := position.Bounded()
	var late *page
	// Before the batch waits for its turn: what it needs of the page is copied.
	free := func() {
		p.free()
		late.free()
		p, late = nil, nil
	}
	defer free()
	ready, err := s.watchIDs(ctx, p, position.ID)
	if err != nil {
		return nil, false, nil, err
	}
	if !ready {
		// The lag counts from the first row of a page that is read again.
		s.held = time.Time{}
		s.holdRest(p, p.Rows, 0)
		s.status.leave(findTail, s.held)
		return nil, p.More, nil, nil
	}
	if err := s.server.meet(ctx, p.Server); err != nil {
		return nil, false, nil, err
	}
	s.held = time.Time{}
	at := s.look(p)
	if len(p.Rows) > 0 || s.status.hot() {
		s.pace.touch()
	}
	records, late, err := s.pick(ctx, p, at)
	if err != nil {
		return nil, false, nil, err
	}
	s.stateGaps(at)
	whole := len(records) > 0 && len(records) == len(p.Rows)
	s.prefetchNext(ctx, p, *position, records)
	b, bad = s.encode(ctx, p, records, late, position.Reading)
	if !s.opts.Limits.settle(held, b.size()) {
		s.drop(b)
		s.holdRest(p, records, 0)
		s.status.leave(findTail, s.held)
		// Invariant 7: what is read again does not wait beside others.
		free()
		return nil, true, nil, s.reader.reserveBig(ctx, held)
	}
	if err := s.pass(b, at); err != nil {
		s.drop(b)
		return nil, false, nil, err
	}
	if bounded && len(p.Rows) == 0 {
		// The rows of the former reading are gone.
		position.Reading = ledger.Reading{}
		more = true
	}
	if whole && (p.More || bounded) {
		more = true
		// What comes next is hardly older.
		s.holdRest(p, records, len(records)-1)
	}
	if bad != nil {
		s.holdRest(p, records, len(b.passed))
		s.holdLate(late, len(b.filled))
	}
	if s.moreLate(b, late) {
		more = true
		// What comes next is hardly older.
		s.holdLate(late, len(late.Rows)-1)
	}
	return b, more && bad == nil, bad, nil
}

// look takes note of what the page says about the table.
func (s *Shard) look(p *page) ledger.Age {
	at := s.reader.age(p)
	s.window.See(p.MaxID, at.Steady)
	s.gaps.ledger.See(p.MaxID, at.Steady)
	s.heights.see(p.MaxID, p.got)
	return at
}

// pick looks for gaps and returns the records of the page that may be published now, and the page of the late ones, nil for none.
func (s *Shard) pick(ctx context.Context, p *page, at ledger.Age) (records []source.Row, late *page, err error) {
	hold := s.opts.GapPolicy == ledger.GapHold && !ledgerOff()
	if hold {
		s.gaps.ledger.Notice(s.pageIDs(p), at.Steady)
	}
	if late, err = s.probe(ctx, p, at); err != nil {
		return nil, nil, err
	}
	if err := s.sweep(ctx, p.Server, at); err != nil {
		late.free()
		return nil, nil, err
	}
	records = s.stable(p, at)
	if hold && len(records) > 0 {
		reach := s.gaps.ledger.Reach(records[len(records)-1].ID, at.Steady)
		all := records
		for len(records) > 0 && records[len(records)-1].ID > reach {
			records = records[:len(records)-1]
		}
		s.holdRest(p, all, len(records))
	}
	return records, late, nil
}

// pageIDs returns the ids of the page.
func (s *Shard) pageIDs(p *page) []uint64 {
	s.ids = appendIDs(s.ids[:0], p.Rows)
	return s.ids
}

func appendIDs(ids []uint64, rows []source.Row) []uint64 {
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return ids
}

// pass moves the ledger behind what the batch takes care of and hands its changes to the batch, to be saved once that is acknowledged.
// While nothing is published it does so now and then.
func (s *Shard) pass(b *batch, at ledger.Age) error {
	l := s.gaps.ledger
	if l == nil {
		return nil
	}
	idle := len(b.passed) == 0
	for _, id := range b.filled {
		if l.Fill(id, at.Steady) {
			idle = false
			s.opts.Metrics.late.WithLabelValues(s.opts.Stream).Inc()
		}
	}
	if n := len(b.passed); n > 0 {
		l.Advance(b.passed[n-1], b.passed, at.Steady)
	}
	b.last = l.Position()
	if idle && (time.Since(s.gaps.saved) < saveLedgerEvery || !l.Open()) {
		return l.Err()
	}
	s.gaps.saved = time.Now()
	l.Saved(s.gaps.kept.Load())
	b.ledger, b.ledgerCall = l.Changed(), l.Calls()
	// With GapHold there are gaps above the position, too.
	b.gaps = slices.DeleteFunc(l.Gaps(gapsShown), func(g ledger.Gap) bool { return g.Last > b.last })
	return l.Err()
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
		s.holdLate(late, 0)
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
		e, err := s.builder.add(b, event.Row{Row: record, Read: s.readAt(record.ID)}, sink.FromLate)
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
