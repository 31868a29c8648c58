package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"bridge/event"
	"bridge/source"
)

var pages = sync.Pool{New: func() any { return new(source.Page) }}

// own is the owner's loop: it reads the shard page by page behind position and hands each on as a batch. It returns
// nil when ctx ends.
func (s *Shard) own(ctx context.Context, position source.Position, out chan<- *batch) error {
	if err := s.refuseReusedIDs(ctx, position.ID); err != nil {
		return ended(ctx, err)
	}
	// Shards that start together do not poll together.
	poll := time.NewTimer(rand.N(s.opts.PollInterval + 1))
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
		next := time.Now().Add(s.opts.PollInterval)
		more, err := s.turn(ctx, &position, out)
		if err != nil {
			return ended(ctx, err)
		}
		if more {
			next = time.Now()
		}
		poll.Reset(time.Until(next))
	}
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
	if err := s.reserve(ctx); err != nil {
		return false, err
	}
	held := false
	defer func() {
		if !held {
			s.opts.Limits.release(s.opts.Limits.share)
		}
	}()
	q := source.Query{After: position.ID, Limit: s.opts.BatchRows, MaxBytes: s.opts.Limits.pageBytes()}
	if position.Reading.Through > position.ID {
		// What was read under an earlier clock is a page of its own.
		q.Through = position.Reading.Through
	}
	if err := s.read(ctx, q); err != nil {
		return false, err
	}
	defer s.freePage()
	if err := s.watchIDs(ctx, position.ID); err != nil {
		return false, err
	}
	stable := s.stable()
	s.noteLag(stable)
	if stable == 0 {
		if q.Through > 0 && len(s.page.Records) == 0 {
			// The rows of the former reading are gone.
			position.Reading = source.Reading{}
			return true, nil
		}
		return false, nil
	}
	b, bad := s.encode(s.page.Records[:stable], position.Reading)
	b.held, held = s.opts.Limits.settle(b.size()), true
	if len(b.messages) == 0 {
		s.discard(b)
		return false, bad
	}
	position.ID = b.last
	more = bad == nil && stable == len(s.page.Records) && (s.page.More || q.Through > 0)
	if err := s.handOver(ctx, b, out); err != nil {
		return false, err
	}
	return more, bad
}

// read fills s.page, waiting for a source that is away.
func (s *Shard) read(ctx context.Context, q source.Query) error {
	if s.page == nil {
		s.page = pages.Get().(*source.Page)
	}
	err := s.retry(ctx, s.readFault, func() error { return s.readOnce(ctx, q) })
	if err != nil {
		s.freePage()
		return err
	}
	s.opts.Faults.OK(PlaceSource)
	s.opts.Faults.OK(s.place())
	s.status.polled()
	if s.page.Columns != s.columns {
		if err := s.opts.Encoder.Bind(s.page.Columns); err != nil {
			s.freePage()
			return fmt.Errorf("%w: %w", source.ErrUnfit, err)
		}
		s.columns = s.page.Columns
	}
	return nil
}

func (s *Shard) readOnce(ctx context.Context, q source.Query) error {
	if err := s.opts.Limits.reads.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.opts.Limits.reads.Release(1)
	return s.opts.Source.Read(ctx, q, s.page)
}

// PlaceSource is the place of faults of the source as a whole, as the outage log names it.
const PlaceSource = "source"

func (s *Shard) place() string { return "shard " + s.opts.Stream + "/" + s.opts.Name }

// readFault names the place of a failed read: the source when that is away as a whole, else this shard.
func (s *Shard) readFault(error) string {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 3*time.Second, errors.New("the source did not answer in 3s"))
	defer cancel()
	if s.opts.SourceReady(ctx) != nil {
		return PlaceSource
	}
	return s.place()
}

func (s *Shard) freePage() {
	if s.page != nil {
		s.page.Reset()
		pages.Put(s.page)
		s.page = nil
	}
}

// stable returns how many records at the head of the page are old enough. Without a gap ledger a young record ends the
// page: what is behind it waits for it.
func (s *Shard) stable() int {
	at := source.Age{Now: s.page.Now, Steady: s.clock.Tick(s.page.Now, time.Now())}
	s.window.See(s.page.MaxID, at.Steady)
	for i, record := range s.page.Records {
		created, resolution := s.created(record)
		if !s.window.Stable(record.ID, created, resolution, at) {
			return i
		}
	}
	return len(s.page.Records)
}

// created returns the time in the record's CREATED column and that column's resolution; zero when it has none.
func (s *Shard) created(record source.Record) (time.Time, time.Duration) {
	i := s.page.Columns.Created
	if i < 0 {
		return time.Time{}, 0
	}
	column := s.page.Columns.List[i]
	created, ok := column.Time(record.Values[i], s.opts.Zone)
	if !ok {
		return time.Time{}, 0
	}
	return created, column.Resolution()
}

// noteLag tells the status how old the first record of the page is, and the first that stays behind.
func (s *Shard) noteLag(stable int) {
	if stable < len(s.page.Records) {
		s.status.heldSince(s.bornAt(s.page.Records[stable]))
		return
	}
	s.status.heldSince(time.Time{})
}

// bornAt is the host's time at which the record had the age zero.
func (s *Shard) bornAt(record source.Record) time.Time {
	now := time.Now()
	if created, _ := s.created(record); !created.IsZero() {
		return now.Add(-max(0, s.page.Now.Sub(created)))
	}
	if seen, ok := s.window.FirstSeen(record.ID); ok {
		return now.Add(-max(0, s.page.Now.Sub(seen)))
	}
	return now
}

// encode makes a batch of records. Where one cannot be encoded the batch ends before it and the error says why.
func (s *Shard) encode(records []source.Record, reading source.Reading) (*batch, error) {
	b := newBatch()
	b.oldest = s.bornAt(records[0])
	now := time.Now()
	for _, record := range records {
		row := event.Row{Record: record, Read: s.page.Now}
		if reading.Covers(record.ID) {
			// Invariant 4: what may have been sent before a crash is sent again with the same bytes.
			row.Read = reading.At
		}
		if err := b.add(s, row, now); err != nil {
			return b, err
		}
	}
	return b, nil
}

// reserve waits for a share of the bytes in flight; the loop counts as turning meanwhile.
func (s *Shard) reserve(ctx context.Context) error {
	for {
		wait, cancel := context.WithTimeout(ctx, turnEvery)
		err := s.opts.Limits.reserve(wait)
		cancel()
		s.status.turn()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// turnEvery is how often a loop that waits shows that it is alive.
const turnEvery = 5 * time.Second

// handOver gives b to the publisher and waits while that is busy: a slow bus slows reading down.
func (s *Shard) handOver(ctx context.Context, b *batch, out chan<- *batch) error {
	s.status.queue(b.oldest)
	tick := time.NewTicker(turnEvery)
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
			s.status.turn()
		}
	}
}

// discard frees a batch that is not published.
func (s *Shard) discard(b *batch) {
	s.opts.Limits.release(b.held)
	b.recycle()
}
