package shard

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"bridge/event"
	"bridge/internal/failpoint"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

var pages = sync.Pool{New: func() any { return new(source.Page) }}

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
	defer s.dropPrefetched()
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
			if err := s.judge(ctx, n, out); err != nil {
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
	if !s.tailless() {
		if more, err = s.turn(ctx, position, out); err != nil {
			return false, err
		}
	} else if err := s.greet(ctx); err != nil {
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
	held, err := s.readTail(ctx, *position)
	defer func() { s.opts.Limits.release(&held) }()
	if err != nil || s.page == nil {
		return false, err
	}
	b, more, bad, err := s.next(ctx, position, &held)
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

// readTail makes s.page the page behind position, and returns the share that it is to become a batch in. There is no page where a glance shows
// nothing behind position and the turn has nothing else to do.
func (s *Shard) readTail(ctx context.Context, position ledger.Position) (held hold, err error) {
	q := s.tailQuery(position)
	if held, ok := s.takePrefetched(q); ok {
		return held, s.greeted()
	}
	drained, err := s.drained(ctx, position)
	if err != nil {
		return hold{}, err
	}
	if drained && !s.owes() {
		return hold{}, s.rest(ctx, position.ID)
	}
	if held, err = s.reserve(ctx); err != nil {
		s.freePage()
		return hold{}, err
	}
	if drained {
		return held, nil
	}
	return held, s.read(ctx, q)
}

// drained reports whether a glance, whose answer s.page holds then, shows nothing behind position.
func (s *Shard) drained(ctx context.Context, position ledger.Position) (bool, error) {
	if position.Bounded() {
		return false, nil
	}
	seen, err := s.glance(ctx)
	return seen && s.page.MaxID <= position.ID, err
}

// tailQuery asks for the page behind position.
func (s *Shard) tailQuery(position ledger.Position) source.Query {
	q := source.Query{After: position.ID, Limit: s.opts.BatchRows, MaxBytes: s.opts.Limits.pageBytes()}
	if position.Bounded() {
		// What was read under an earlier clock is a page of its own.
		q.Through = position.Reading.Through
	}
	return q
}

// next makes a batch of s.page, the page behind position. bad is why the batch ends early, for good.
func (s *Shard) next(ctx context.Context, position *ledger.Position, held *hold) (b *batch, more bool, bad, err error) {
	bounded := position.Bounded()
	// Before the batch waits for its turn: what it needs of the page is copied.
	defer s.freePages()
	ready, err := s.watchIDs(ctx, position.ID)
	if err != nil {
		return nil, false, nil, err
	}
	if !ready {
		// The lag counts from the first row of a page that is read again.
		s.held = time.Time{}
		s.holdRest(s.page, s.page.Rows, 0)
		s.status.leave(findTail, s.held)
		return nil, s.page.More, nil, nil
	}
	if err := s.meet(ctx, s.page.Server); err != nil {
		return nil, false, nil, err
	}
	s.held = time.Time{}
	at := s.look()
	if len(s.page.Rows) > 0 || s.status.hot() {
		s.active = time.Now()
	}
	records, err := s.pick(ctx, at)
	if err != nil {
		return nil, false, nil, err
	}
	s.stateGaps(at)
	whole := len(records) > 0 && len(records) == len(s.page.Rows)
	s.prefetchNext(ctx, *position, records)
	b, bad = s.encode(ctx, records, position.Reading)
	if !s.opts.Limits.settle(held, b.size()) {
		s.drop(b)
		s.holdRest(s.page, records, 0)
		s.status.leave(findTail, s.held)
		// Invariant 7: what is read again does not wait beside others.
		s.freePages()
		return nil, true, nil, s.reserveBig(ctx, held)
	}
	if err := s.pass(b, at); err != nil {
		s.drop(b)
		return nil, false, nil, err
	}
	if bounded && len(s.page.Rows) == 0 {
		// The rows of the former reading are gone.
		position.Reading = ledger.Reading{}
		more = true
	}
	if whole && (s.page.More || bounded) {
		more = true
		// What comes next is hardly older.
		s.holdRest(s.page, records, len(records)-1)
	}
	if bad != nil {
		s.holdRest(s.page, records, len(s.passed))
		s.holdLate(len(s.filled))
	}
	if s.moreLate() {
		more = true
		// What comes next is hardly older.
		s.holdLate(len(s.gaps.late.Rows) - 1)
	}
	return b, more && bad == nil, bad, nil
}

// look takes note of what the page says about the table.
func (s *Shard) look() ledger.Age {
	at := ledger.Age{Now: s.page.Now, Steady: s.steady(s.page.Now)}
	s.window.See(s.page.MaxID, at.Steady)
	s.gaps.ledger.See(s.page.MaxID, at.Steady)
	s.heights.see(s.page.MaxID, s.answered.at)
	return at
}

// pick looks for gaps and returns the records of the page that may be published now; the late ones are in s.gaps.late.
func (s *Shard) pick(ctx context.Context, at ledger.Age) ([]source.Row, error) {
	hold := s.opts.GapPolicy == ledger.GapHold && !ledgerOff()
	if hold {
		s.gaps.ledger.Notice(s.pageIDs(), at.Steady)
	}
	if err := s.probe(ctx, at); err != nil {
		return nil, err
	}
	if err := s.sweep(ctx, at); err != nil {
		return nil, err
	}
	records := s.stable(at)
	if hold && len(records) > 0 {
		reach := s.gaps.ledger.Reach(records[len(records)-1].ID, at.Steady)
		all := records
		for len(records) > 0 && records[len(records)-1].ID > reach {
			records = records[:len(records)-1]
		}
		s.holdRest(s.page, all, len(records))
	}
	return records, nil
}

// pageIDs returns the ids of the page.
func (s *Shard) pageIDs() []uint64 {
	s.passed = s.passed[:0]
	for _, record := range s.page.Rows {
		s.passed = append(s.passed, record.ID)
	}
	return s.passed
}

// pass moves the ledger behind what the batch takes care of and hands its changes to the batch, to be saved once that is acknowledged.
// While nothing is published it does so now and then.
func (s *Shard) pass(b *batch, at ledger.Age) error {
	l := s.gaps.ledger
	if l == nil {
		return nil
	}
	idle := len(s.passed) == 0
	for _, id := range s.filled {
		if l.Fill(id, at.Steady) {
			idle = false
			s.opts.Metrics.late.WithLabelValues(s.opts.Stream).Inc()
		}
	}
	if n := len(s.passed); n > 0 {
		l.Advance(s.passed[n-1], s.passed, at.Steady)
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
func (s *Shard) encode(ctx context.Context, records []source.Row, reading ledger.Reading) (*batch, error) {
	b := s.newBatch()
	if err := s.encodeTail(ctx, b, records, reading); err != nil {
		return b, err
	}
	late := s.gaps.late
	if late == nil || late.Columns != s.page.Columns {
		// Altered between the two reads: the gaps stay, the next poll reads them again.
		s.holdLate(0)
		return b, nil
	}
	return b, s.encodeLate(ctx, b, late)
}

// newBatch begins a batch.
func (s *Shard) newBatch() *batch {
	b := newBatch()
	b.made, b.journal = time.Now(), s.view != nil
	s.passed, s.filled = s.passed[:0], s.filled[:0]
	return b
}

func (s *Shard) encodeTail(ctx context.Context, b *batch, records []source.Row, reading ledger.Reading) error {
	if s.view != nil {
		s.seeTail(s.page, records)
		err := s.encodeStates(ctx, b, s.page, records, sink.FromTail, func(id uint64) { s.passed = append(s.passed, id) })
		first := max(0, len(s.passed)-s.published.log.Limit())
		for i, record := range records[first:len(s.passed)] {
			one := &s.view.sights[first+i]
			s.published.note(b, s.page.Columns, record, one.state, one.entity)
		}
		return err
	}
	b.makeRoom(s, len(records))
	for i, record := range records {
		b.born(s, s.page, record)
		row := event.Row{Row: record, Read: s.page.Now}
		if reading.Covers(record.ID) {
			// Invariant 4: what may have been sent before a crash is sent again with the same bytes.
			row.Read = reading.At
		}
		e, err := b.add(s, row, sink.FromTail)
		if err != nil {
			return err
		}
		s.passed = append(s.passed, record.ID)
		if len(records)-i <= s.published.log.Limit() {
			s.published.note(b, s.page.Columns, record, e.Digest, nil)
		}
		if e.FromClock {
			b.readAt, b.readThrough = row.Read, record.ID
		}
	}
	return nil
}

func (s *Shard) encodeLate(ctx context.Context, b *batch, late *source.Page) error {
	// The late page may have been read long after the other, when the source was away in between: its ages are others.
	b.oldestCreated = nil
	if s.view != nil {
		return s.encodeStates(ctx, b, late, late.Rows, sink.FromLate, func(id uint64) { s.filled = append(s.filled, id) })
	}
	for _, record := range late.Rows {
		b.born(s, late, record)
		e, err := b.add(s, event.Row{Row: record, Read: s.readAt(record.ID)}, sink.FromLate)
		if err != nil {
			return err
		}
		s.filled = append(s.filled, record.ID)
		b.lateClock = b.lateClock || e.FromClock
	}
	return nil
}

// reserve waits for a share of the bytes in flight; the loop counts as turning meanwhile.
func (s *Shard) reserve(ctx context.Context) (held hold, err error) {
	if s.oversize.big {
		// The page that did not fit is read again.
		held, s.oversize = s.oversize, hold{}
		return held, nil
	}
	// Of shards that wait for a share each might hold one for a page that it is not going to use.
	s.dropPrefetched()
	err = s.retrier.wait(owning, forEver, func() error {
		held, err = s.opts.Limits.reserve(ctx)
		return err
	})
	return held, err
}

// reserveBig waits until a batch of any size may be held, and keeps that for the next turn.
func (s *Shard) reserveBig(ctx context.Context, held *hold) error {
	s.dropPrefetched()
	err := s.retrier.wait(owning, forEver, func() error { return s.opts.Limits.reserveBig(ctx, held) })
	if err == nil {
		s.oversize, *held = *held, hold{}
	}
	return err
}

// handOver gives b to the publisher and waits while that is busy: a slow bus slows reading down.
func (s *Shard) handOver(ctx context.Context, b *batch, out chan<- *batch) error {
	b.oldestCreated = nil
	s.status.queue(b.oldest)
	s.learn(b)
	s.published.hand(b)
	if s.view != nil {
		s.view.hand(b)
	}
	if s.second != nil {
		b.cursor, s.second.saved = s.second.after, time.Now()
	}
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
			s.dropStale()
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
