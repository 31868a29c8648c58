package pipeline

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
)

var pages = sync.Pool{New: func() any { return new(source.Page) }}

// own is the owner's loop: it reads the shard page by page behind position and hands each on as a batch, then what was
// modified in place, and whatever is nominated. It returns nil when ctx ends.
func (s *Shard) own(ctx context.Context, position source.Position, out chan<- *batch) error {
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
func (s *Shard) poll(ctx context.Context, position *source.Position, out chan<- *batch) (more bool, err error) {
	if !s.tailless() {
		if more, err = s.turn(ctx, position, out); err != nil {
			return false, err
		}
	} else if err := s.greet(ctx); err != nil {
		return false, err
	}
	s.catchUp(position.ID, more)
	return more, s.follow(ctx, out)
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
func (s *Shard) turn(ctx context.Context, position *source.Position, out chan<- *batch) (more bool, err error) {
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
		s.discard(b)
		return more, bad
	}
	position.ID = b.last
	if err := s.handOver(ctx, b, out); err != nil {
		return false, err
	}
	return more, bad
}

// readTail makes s.page the page behind position, and returns the share that it is to become a batch in. There is no page where a glance shows
// nothing behind position and the turn has nothing else to do.
func (s *Shard) readTail(ctx context.Context, position source.Position) (held hold, err error) {
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
func (s *Shard) drained(ctx context.Context, position source.Position) (bool, error) {
	if position.Bounded() {
		return false, nil
	}
	seen, err := s.glance(ctx)
	return seen && s.page.MaxID <= position.ID, err
}

// tailQuery asks for the page behind position.
func (s *Shard) tailQuery(position source.Position) source.Query {
	q := source.Query{After: position.ID, Limit: s.opts.BatchRows, MaxBytes: s.opts.Limits.pageBytes()}
	if position.Bounded() {
		// What was read under an earlier clock is a page of its own.
		q.Through = position.Reading.Through
	}
	return q
}

// next makes a batch of s.page, the page behind position. bad is why the batch ends early, for good.
func (s *Shard) next(ctx context.Context, position *source.Position, held *hold) (b *batch, more bool, bad, err error) {
	bounded := position.Bounded()
	// Before the batch waits for its turn: what it needs of the page is copied.
	defer s.freePages()
	if err := s.watchIDs(ctx, position.ID); err != nil {
		return nil, false, nil, err
	}
	s.held = time.Time{}
	at := s.look()
	if len(s.page.Records) > 0 || s.status.hot() {
		s.active = time.Now()
	}
	records, err := s.pick(ctx, at)
	if err != nil {
		return nil, false, nil, err
	}
	s.stateGaps(at)
	whole := len(records) > 0 && len(records) == len(s.page.Records)
	if whole && s.page.More && !bounded {
		s.prefetch(ctx, source.Position{ID: records[len(records)-1].ID})
	}
	b, bad = s.encode(ctx, records, position.Reading)
	if !s.opts.Limits.settle(held, b.size()) {
		s.drop(b)
		// Invariant 7: what is read again does not wait beside others.
		s.freePages()
		return nil, true, nil, s.reserveBig(ctx, held)
	}
	s.pass(b, at)
	if bounded && len(s.page.Records) == 0 {
		// The rows of the former reading are gone.
		position.Reading = source.Reading{}
		more = true
	}
	if whole && (s.page.More || bounded) {
		more = true
		// What comes next is hardly older.
		s.hold(s.page, records[len(records)-1])
	}
	s.status.heldSince(s.held)
	return b, more && bad == nil, bad, nil
}

// look takes note of what the page says about the table.
func (s *Shard) look() source.Age {
	at := source.Age{Now: s.page.Now, Steady: s.steady(s.page.Now)}
	s.window.See(s.page.MaxID, at.Steady)
	s.gaps.ledger.See(s.page.MaxID, at.Steady)
	return at
}

// pick looks for gaps and returns the records of the page that may be published now; the late ones are in s.gaps.late.
func (s *Shard) pick(ctx context.Context, at source.Age) ([]source.Record, error) {
	hold := s.opts.GapPolicy == source.GapHold && !ledgerOff
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
		for len(records) > 0 && records[len(records)-1].ID > reach {
			records = records[:len(records)-1]
		}
	}
	return records, nil
}

// pageIDs returns the ids of the page.
func (s *Shard) pageIDs() []uint64 {
	s.passed = s.passed[:0]
	for _, record := range s.page.Records {
		s.passed = append(s.passed, record.ID)
	}
	return s.passed
}

// pass moves the ledger behind what the batch takes care of and hands its changes to the batch, to be saved once that is acknowledged.
// While nothing is published it does so now and then.
func (s *Shard) pass(b *batch, at source.Age) {
	ledger := s.gaps.ledger
	if ledger == nil {
		return
	}
	idle := len(s.passed) == 0
	for _, id := range s.filled {
		if ledger.Fill(id, at.Steady) {
			idle = false
			s.opts.Metrics.late.WithLabelValues(s.opts.Stream).Inc()
		}
	}
	if n := len(s.passed); n > 0 {
		s.gaveUp(ledger.Pass(s.passed[n-1], s.passed, at.Steady))
	}
	b.last = ledger.Position()
	if idle && (time.Since(s.gaps.saved) < saveLedgerEvery || !ledger.Open() && len(s.gaps.given) == 0) {
		return
	}
	s.gaps.saved = time.Now()
	b.ledger = ledger.Changed()
	b.given, s.gaps.given = s.gaps.given, nil
	// With GapHold there are gaps above the position, too.
	b.gaps = slices.DeleteFunc(ledger.Gaps(gapsShown), func(g source.Gap) bool { return g.Last > b.last })
}

// encode makes a batch of the records of the page, and behind them of the late ones, which were read after it.
// Invariant 3: the order of the reads is the order on the bus. Where a record cannot be encoded the batch ends before
// it and the error says why.
func (s *Shard) encode(ctx context.Context, records []source.Record, reading source.Reading) (*batch, error) {
	b := s.newBatch()
	if err := s.encodeTail(ctx, b, records, reading); err != nil {
		return b, err
	}
	late := s.gaps.late
	if late == nil || late.Columns != s.page.Columns {
		// Altered between the two reads: the gaps stay, the next poll reads them again.
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

func (s *Shard) encodeTail(ctx context.Context, b *batch, records []source.Record, reading source.Reading) error {
	if s.view != nil {
		s.seeTail(s.page, records)
		return s.encodeStates(ctx, b, s.page, records, sink.FromTail, func(id uint64) { s.passed = append(s.passed, id) })
	}
	b.makeRoom(s, len(records))
	for _, record := range records {
		b.born(s, s.page, record)
		row := event.Row{Record: record, Read: s.page.Now}
		if reading.Covers(record.ID) {
			// Invariant 4: what may have been sent before a crash is sent again with the same bytes.
			row.Read = reading.At
		}
		e, err := b.add(s, row, sink.FromTail)
		if err != nil {
			return err
		}
		s.passed = append(s.passed, record.ID)
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
		return s.encodeStates(ctx, b, late, late.Records, sink.FromLate, func(id uint64) { s.filled = append(s.filled, id) })
	}
	for _, record := range late.Records {
		b.born(s, late, record)
		e, err := b.add(s, event.Row{Record: record, Read: s.readAt(record.ID)}, sink.FromLate)
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
	err = s.alive(owning, forEver, func() error {
		held, err = s.opts.Limits.reserve(ctx)
		return err
	})
	return held, err
}

// reserveBig waits until a batch of any size may be held, and keeps that for the next turn.
func (s *Shard) reserveBig(ctx context.Context, held *hold) error {
	s.dropPrefetched()
	err := s.alive(owning, forEver, func() error { return s.opts.Limits.reserveBig(ctx, held) })
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
			s.status.dequeue()
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
