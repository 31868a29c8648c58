package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"bridge/checkpoint"
	"bridge/source"
	"bridge/source/ledger"
)

// gaps is what the owner knows about the ids that it has not seen.
type gaps struct {
	ledger *ledger.Ledger
	// ids is what the last evidence showed.
	ids idList
	// landing are late records that one read does not bring.
	landing landing
	// kept counts the saves of the ledger that are durable.
	kept atomic.Uint64
	// strays are the ends of the wide gaps that were told of.
	strays []uint64
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
	s.gaps.kept.Store(0)
	options := s.ledgerOptions()
	options.Away = time.Since(state.Saved)
	var err error
	if len(state.Ledger) > 0 {
		s.gaps.ledger, err = ledger.RestoreParts(options, state.Position.ID, state.Ledger[0].Bytes,
			checkpoint.LedgerParts(context.Background(), s.opts.Store, s.key()))
	} else {
		s.gaps.ledger, err = ledger.New(options, state.Position.ID)
	}
	switch {
	case errors.Is(err, ledger.ErrDamaged):
		return fmt.Errorf("%w: %w: bridge checkpoint set %s %s %d goes on without it; "+
			"a release stream then takes all ids up to there for published, set to 0 publishes all rows again",
			checkpoint.ErrCorrupt, err, s.opts.Stream, s.opts.Name, state.Position.ID)
	case err != nil:
		return fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	return nil
}

func (s *Shard) ledgerOptions() ledger.Options {
	return ledger.Options{
		// A statement may wait for a lock between taking its id and inserting the row.
		HotFor:     cmp.Or(s.opts.HotFor, max(time.Minute, s.server.traits.LockWait*6/5)),
		GapTTL:     s.opts.GapTTL,
		SweepEvery: s.opts.SweepEvery,
		Policy:     s.opts.GapPolicy,
		Order:      s.server.traits.Order,
		MaxBytes:   s.opts.LedgerBytes,
		Load:       s.loadLedger,
	}
}

// seedGaps makes the ledger of a shard that begins behind start: what is not committed just below is missing from the beginning, so
// that it is not lost.
func (s *Shard) seedGaps(ctx context.Context, start uint64) error {
	from := start - min(start, seedIDs)
	l, err := ledger.New(s.ledgerOptions(), from)
	if err != nil {
		return fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	s.gaps.ledger = l
	if start > from && !ledgerOff() {
		if err := s.reader.ids(ctx, []source.Range{{First: from + 1, Last: start}}, false, &s.gaps.ids); err != nil {
			return err
		}
	}
	if !s.gaps.ids.Now.IsZero() {
		l.Advance(start, s.gaps.ids.List, s.reader.steady(&s.gaps.ids))
	}
	return nil
}

// probe looks for hot gaps: it reads the committed records that may fill them, and afterwards which ids exist at all, uncommitted
// rows included. An id may only be judged vacant by a read that came after the committed one. It returns the page of those that
// may be published, nil where none were read.
func (s *Shard) probe(ctx context.Context, p *page, at ledger.Age) (late *page, err error) {
	hot := s.gaps.ledger.Hot(at.Steady)
	if ledgerOff() {
		return nil, nil
	}
	s.gaps.landing.cut, s.gaps.landing.rest = false, nil
	if len(hot.Rows) > 0 {
		if late, err = s.readLate(ctx, p, hot.Rows); err != nil {
			return nil, err
		}
		s.holdYoung(late, at)
	}
	if len(hot.IDs) == 0 || s.opts.GapPolicy != ledger.GapHold && s.gaps.landing.skipsEvidence(time.Now(), s.opts.PollInterval) {
		return late, nil
	}
	evidence, err := s.evidence(ctx, p.Server, hot.IDs)
	if err != nil {
		late.free()
		return nil, err
	}
	s.gaps.landing.judge(s.gaps.ids.span)
	s.unpolled(s.gaps.ledger.Observe(evidence))
	return late, nil
}

// readLate reads the late records in ranges, or takes them from what was read ahead.
// Invariant 3: that was read behind p, and nothing else was read since.
func (s *Shard) readLate(ctx context.Context, p *page, ranges []source.Range) (late *page, err error) {
	if late = p.takeLate(ranges); late == nil {
		if late, err = s.reader.rows(ctx, s.lateQuery(ranges)); err != nil {
			return nil, err
		}
	}
	late.seen = &s.gaps.landing
	if n := len(late.Rows); late.More && n > 0 {
		s.gaps.landing.cut, s.gaps.landing.rest = true, rangesBehind(ranges, late.Rows[n-1].ID)
		s.gaps.ledger.CutOff(late.Rows[n-1].ID)
	}
	return late, nil
}

// holdYoung keeps of the late page the records that fill a gap and are old enough.
func (s *Shard) holdYoung(late *page, at ledger.Age) {
	kept := late.Rows[:0]
	for _, record := range late.Rows {
		if !s.gaps.ledger.Missing(record.ID) {
			continue
		}
		s.gaps.ledger.Appeared(record.ID)
		if !s.isStable(late, record, at) {
			s.gaps.ledger.Young(record.ID)
			s.hold(late, record)
			continue
		}
		kept = append(kept, record)
	}
	late.Rows = kept
}

// evidence reads which ids exist in ranges. Evidence that does not fit the server of the page shows nothing: no id is judged by it.
func (s *Shard) evidence(ctx context.Context, server string, ranges []source.Range) (ledger.Evidence, error) {
	skip := s.server.agreement.skips(time.Now())
	if err := s.reader.ids(ctx, ranges, s.server.traits.Uncommitted && !skip, &s.gaps.ids); err != nil {
		return ledger.Evidence{}, err
	}
	ids := &s.gaps.ids
	if !skip && s.server.traits.Evidence && !s.server.fits(server, ids.Server) {
		return ledger.Evidence{Now: s.reader.steady(ids)}, nil
	}
	if ids.Cut {
		ranges = ledger.Clip(ranges, ids.List[len(ids.List)-1])
	}
	return ledger.Evidence{Ranges: ranges, IDs: ids.List, Now: s.reader.steady(ids)}, nil
}

// sweep looks for a part of the cold ids, when that is due.
func (s *Shard) sweep(ctx context.Context, server string, at ledger.Age) error {
	if ledgerOff() {
		return nil
	}
	ranges := s.gaps.ledger.Sweep(at.Steady)
	if len(ranges) == 0 {
		return nil
	}
	evidence, err := s.evidence(ctx, server, ranges)
	if err != nil {
		return err
	}
	s.unpolled(s.gaps.ledger.Swept(evidence))
	return nil
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
func (s *Shard) stateGaps(at ledger.Age) {
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
			Hot: stats.Hot, Cold: stats.Cold, InFlight: stats.Pending, Unpolled: stats.Unpolled, Ranges: stats.Ranges, Bytes: stats.Bytes,
			OldestAge: oldest, Oldest: s.gaps.ledger.Gaps(gapsShown),
		}
		status.OpenGaps = stats.Ranges
	})
	s.tellStrays()
	if open := s.gaps.ledger.Pending(heldOpen, 1, at.Steady); len(open) > 0 && s.warn() {
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
