package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/checkpoint"
	"bridge/source"
)

// gaps is what the owner knows about the ids that it has not seen.
type gaps struct {
	ledger *source.Ledger
	traits source.Traits
	// server is the one that traits are known to hold for.
	server string
	// evidence says that uncommitted rows are looked for; it ends for good where they turn out to come from another server.
	evidence bool
	// late holds the rows of the last probe, ids what the last evidence showed.
	late *source.Page
	ids  source.IDs
	// given are ids that were given up and that no batch has taken to be saved yet.
	given []source.Range
	// saved, stated and warned are when the ledger was last handed to be saved, shown in the status, and complained about.
	saved, stated, warned time.Time
}

const (
	// lateRows bounds the records of one probe, above what a ledger asks for in vain.
	lateRows = 2048
	// evidenceIDs bounds the ids of one evidence or part of a sweep.
	evidenceIDs = 200_000
	// seedIDs is how far below the start of a shard ids that are not there are watched.
	seedIDs = 100_000
	// saveLedgerEvery and stateEvery are how often a ledger is saved while nothing is published, and shown in the status.
	saveLedgerEvery = 30 * time.Second
	stateEvery      = time.Second
	// heldOpen is how long an id may be in flight before that is worth a warning, each time as long again.
	heldOpen = time.Minute
)

// openGaps makes the ledger of a shard from its saved state, or an empty one at its position.
func (s *Shard) openGaps(state checkpoint.State) error {
	s.gaps.given = nil
	options := s.ledgerOptions()
	options.Away = time.Since(state.Saved)
	var err error
	if len(state.Ledger) > 0 {
		s.gaps.ledger, err = source.RestoreLedger(options, state.Position.ID, state.Ledger)
	} else {
		s.gaps.ledger, err = source.NewLedger(options, state.Position.ID)
	}
	switch {
	case errors.Is(err, source.ErrBadLedger):
		return fmt.Errorf("%w: %w: bridge checkpoint set %s %s %d goes on without it, reconcile finds what it missed",
			checkpoint.ErrCorrupt, err, s.opts.Stream, s.opts.Name, state.Position.ID)
	case err != nil:
		return fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	return nil
}

// askTraits asks the server how it hands out ids, unless ID_ORDER says so.
func (s *Shard) askTraits(ctx context.Context) error {
	s.dropPrefetched()
	err := s.retry(ctx, s.reads(), func() (err error) {
		s.gaps.traits, err = s.opts.IDs.Traits(ctx)
		return err
	})
	if err != nil {
		return err
	}
	t := &s.gaps.traits
	if s.opts.IDOrder != "" {
		t.Order, t.OrderWhy = s.opts.IDOrder, "ID_ORDER says so"
	}
	s.gaps.evidence = t.Evidence && !ledgerOff
	if s.opts.Announce != nil {
		s.opts.Announce(*t)
	}
	return nil
}

func (s *Shard) ledgerOptions() source.LedgerOptions {
	return source.LedgerOptions{
		// A statement may wait for a lock between taking its id and inserting the row.
		HotFor:   max(time.Minute, s.gaps.traits.LockWait*6/5),
		GapTTL:   s.opts.GapTTL,
		Policy:   s.opts.GapPolicy,
		Order:    s.gaps.traits.Order,
		MaxBytes: s.opts.LedgerBytes,
	}
}

// seedGaps makes the ledger of a shard that begins behind start: what is not committed just below is missing from the beginning, so
// that it is not lost.
func (s *Shard) seedGaps(ctx context.Context, start uint64) error {
	from := start - min(start, seedIDs)
	ledger, err := source.NewLedger(s.ledgerOptions(), from)
	if err != nil {
		return fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	s.gaps.ledger = ledger
	if start > from && !ledgerOff {
		if err := s.readIDs(ctx, []source.Range{{First: from + 1, Last: start}}, false); err != nil {
			return err
		}
	}
	if !s.gaps.ids.Now.IsZero() {
		ledger.Pass(start, s.gaps.ids.List, s.steady(s.gaps.ids.Now))
	}
	return nil
}

// readIDs fills s.gaps.ids, waiting for a source that is away.
func (s *Shard) readIDs(ctx context.Context, ranges []source.Range, uncommitted bool) error {
	return s.retry(ctx, s.reads(), func() error {
		return s.reading(ctx, func() error {
			return s.opts.IDs.ReadIDs(ctx, ranges, uncommitted, evidenceIDs, &s.gaps.ids)
		})
	})
}

// steady returns the steady time of the last read, at which the database's clock said now.
func (s *Shard) steady(now time.Time) time.Time { return s.clock.Tick(now, s.asked, s.got) }

// probe looks for hot gaps: it reads the committed records that may fill them, and afterwards which ids exist at all, uncommitted
// rows included. An id may only be judged vacant by a read that came after the committed one.
func (s *Shard) probe(ctx context.Context, at source.Age) error {
	if s.gaps.late != nil {
		s.gaps.late.Reset()
	}
	hot := s.gaps.ledger.Hot(at.Steady)
	if ledgerOff {
		return nil
	}
	if len(hot.Rows) > 0 {
		if err := s.readLate(ctx, hot.Rows); err != nil {
			return err
		}
		s.holdYoung(at)
	}
	if len(hot.IDs) == 0 {
		return nil
	}
	evidence, err := s.evidence(ctx, hot.IDs)
	if err != nil {
		return err
	}
	s.gaveUp(s.gaps.ledger.Judge(evidence))
	return nil
}

func (s *Shard) readLate(ctx context.Context, ranges []source.Range) error {
	if s.gaps.late == nil {
		s.gaps.late = new(source.Page)
	}
	late := s.gaps.late
	q := source.Query{Ranges: ranges, Limit: lateRows, MaxBytes: s.opts.Limits.pageBytes()}
	if err := s.retry(ctx, s.reads(), func() error { return s.readInto(ctx, q, late) }); err != nil {
		late.Reset()
		return err
	}
	if n := len(late.Records); late.More && n > 0 {
		s.gaps.ledger.CutOff(late.Records[n-1].ID)
	}
	return nil
}

// holdYoung keeps of the late page the records that fill a gap and are old enough.
func (s *Shard) holdYoung(at source.Age) {
	late := s.gaps.late
	kept := late.Records[:0]
	for _, record := range late.Records {
		if !s.gaps.ledger.Missing(record.ID) {
			continue
		}
		if !s.isStable(late, record, at) {
			s.gaps.ledger.Young(record.ID)
			s.hold(late, record)
			continue
		}
		kept = append(kept, record)
	}
	late.Records = kept
}

// evidence reads which ids exist in ranges.
func (s *Shard) evidence(ctx context.Context, ranges []source.Range) (source.Evidence, error) {
	if err := s.readIDs(ctx, ranges, s.gaps.evidence); err != nil {
		return source.Evidence{}, err
	}
	ids := &s.gaps.ids
	if s.gaps.evidence && ids.Server != s.page.Server {
		s.gaps.evidence = false
		s.opts.Logger.Warn("what is in flight and what is committed is read from different servers, as through a proxy that splits reads: "+
			"from now on time alone decides how long a missing id is looked for", "rows from", s.page.Server, "ids from", ids.Server)
		// What the other server does not show proves nothing.
		return source.Evidence{Now: s.steady(ids.Now)}, nil
	}
	if ids.Cut {
		ranges = source.Clip(ranges, ids.List[len(ids.List)-1])
	}
	return source.Evidence{Ranges: ranges, IDs: ids.List, Now: s.steady(ids.Now)}, nil
}

// sweep looks for a part of the cold ids, when that is due.
func (s *Shard) sweep(ctx context.Context, at source.Age) error {
	if ledgerOff {
		return nil
	}
	ranges := s.gaps.ledger.Sweep(at.Steady)
	if len(ranges) == 0 {
		return nil
	}
	evidence, err := s.evidence(ctx, ranges)
	if err != nil {
		return err
	}
	s.gaveUp(s.gaps.ledger.Swept(evidence))
	return nil
}

// gaveUp counts the ids that are no longer looked for, and warns of them at most once a minute.
func (s *Shard) gaveUp(given []source.GivenUp) {
	if len(given) == 0 {
		return
	}
	for _, g := range given {
		if s.view == nil {
			// A full scan compares the table with the view anyway.
			s.gaps.given = append(s.gaps.given, g.Range)
		}
		s.opts.Metrics.givenUp.WithLabelValues(s.opts.Stream, string(g.Reason)).Add(float64(g.Last-g.First) + 1)
	}
	if s.warn() {
		s.opts.Logger.Warn("ids that were not seen are no longer looked for, reconcile is left to find a row that turns up there",
			"first", given[0].First, "last", given[len(given)-1].Last, "ranges", len(given), "reason", given[0].Reason, "missed", given[0].Missed)
	}
}

// warn reports whether a minute has passed since the last warning about gaps.
func (s *Shard) warn() bool {
	if time.Since(s.gaps.warned) < heldOpen {
		return false
	}
	s.gaps.warned = time.Now()
	return true
}

// state shows the gaps in the status, and warns of a transaction that is held open.
func (s *Shard) stateGaps(at source.Age) {
	if time.Since(s.gaps.stated) < stateEvery {
		return
	}
	s.gaps.stated = time.Now()
	stats := s.gaps.ledger.Stats(at.Steady)
	var oldest time.Duration
	if !stats.Oldest.IsZero() {
		oldest = max(0, at.Steady.Sub(stats.Oldest))
	}
	s.status.update(func(status *Status) {
		status.Gaps = Gaps{
			Hot: stats.Hot, Cold: stats.Cold, InFlight: stats.InFlight, Ranges: stats.Ranges, Bytes: stats.Bytes,
			OldestAge: oldest, Oldest: s.gaps.ledger.Gaps(gapsShown),
		}
		status.OpenGaps = stats.Ranges
	})
	if open := s.gaps.ledger.InFlight(heldOpen, 1, at.Steady); len(open) > 0 && s.warn() {
		s.opts.Logger.Warn("a transaction holds inserted rows open for long, they are published when it commits",
			"first", open[0].First, "last", open[0].Last, "for", at.Steady.Sub(open[0].Since).Round(time.Second))
	}
}

// readAt returns the clock that counts as the time of a late record without a time of its own: when its id was first missed,
// which is saved.
// Invariant 4: a repeat after a crash has the same time and so the same bytes.
func (s *Shard) readAt(id uint64) time.Time {
	missed, _ := s.gaps.ledger.MissedAt(id)
	return missed
}
