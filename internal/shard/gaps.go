package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"bridge/checkpoint"
	"bridge/source"
	"bridge/source/ledger"
)

// gaps keeps the ledger of the ids that were not seen, and reads the evidence by which the ledger
// judges them. It belongs to the owner, but for kept.
type gaps struct {
	opts   *Options
	reader *reader
	server *server
	status *tracker
	// ledger is nil where the ids have no order.
	ledger *ledger.Ledger
	// ids is what the last evidence showed.
	ids idList
	// kept counts the saves of the ledger that are durable.
	kept atomic.Uint64
	// strays are the ends of the wide gaps that were told of.
	strays []uint64
	// handed, shown and warned are when the ledger was last handed to be saved, shown in the
	// status, and complained about.
	handed, shown, warned time.Time
}

const (
	// lateRows bounds the records of one probe, above what a ledger asks for in vain.
	lateRows = 2048
	// evidenceIDs bounds the ids of one evidence or part of a sweep.
	evidenceIDs = 200_000
	// seedIDs is how far below the start of a shard ids that are not there are watched.
	seedIDs = 100_000
	// saveLedgerEvery and stateEvery are how often a ledger is saved while nothing is published,
	// and shown in the status.
	saveLedgerEvery = 30 * time.Second
	stateEvery      = time.Second
	// heldOpen is how long an id may be in flight before that is worth a warning, each time as long
	// again.
	heldOpen = time.Minute
)

// open makes the ledger of a shard from its saved state, or an empty one at its position; none
// where the ids have no order.
func (g *gaps) open(state checkpoint.State) error {
	if g.ledger = nil; g.server.tailless() {
		return nil
	}
	g.kept.Store(0)
	options := g.options()
	options.Away = time.Since(state.Saved)
	var err error
	if len(state.Ledger) > 0 {
		g.ledger, err = ledger.RestoreParts(options, state.Position.ID, state.Ledger[0].Bytes,
			checkpoint.LedgerParts(context.Background(), g.opts.Store, g.opts.key()))
	} else {
		g.ledger, err = ledger.New(options, state.Position.ID)
	}
	switch {
	case errors.Is(err, ledger.ErrDamaged):
		return fmt.Errorf("%w: %w: bridge checkpoint set %s %s %d goes on without it; "+
			"a release stream then takes all ids up to there for published, set to 0 publishes all rows again",
			checkpoint.ErrCorrupt, err, g.opts.Stream, g.opts.Name, state.Position.ID)
	case err != nil:
		return fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	return nil
}

func (g *gaps) options() ledger.Options {
	return ledger.Options{
		// A statement may wait for a lock between taking its id and inserting the row.
		HotFor:     cmp.Or(g.opts.HotFor, max(time.Minute, g.server.traits.LockWait*6/5)),
		GapTTL:     g.opts.GapTTL,
		SweepEvery: g.opts.SweepEvery,
		Policy:     g.opts.GapPolicy,
		Order:      g.server.traits.Order,
		MaxBytes:   g.opts.LedgerBytes,
		Load:       g.load,
	}
}

// seed makes the ledger of a shard that begins behind start, and returns what is to be saved of it:
// what is not committed just below is missing from the beginning, so that it is not lost.
func (g *gaps) seed(ctx context.Context, start uint64) ([]ledger.Chunk, error) {
	from := start - min(start, seedIDs)
	l, err := ledger.New(g.options(), from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	g.ledger = l
	if start > from && !ledgerOff() {
		if err := g.reader.ids(ctx, []source.Range{{First: from + 1, Last: start}}, false, &g.ids); err != nil {
			return nil, err
		}
	}
	if !g.ids.Now.IsZero() {
		l.Advance(start, g.ids.List, g.reader.steady(&g.ids))
	}
	return l.Changed(), nil
}

// evidence reads which ids exist in ranges. Evidence that does not fit the server of the page shows
// nothing: no id is judged by it.
func (g *gaps) evidence(ctx context.Context, server string, ranges []source.Range) (ledger.Evidence, error) {
	skip := g.server.agreement.skips(time.Now())
	if err := g.reader.ids(ctx, ranges, g.server.traits.Uncommitted && !skip, &g.ids); err != nil {
		return ledger.Evidence{}, err
	}
	ids := &g.ids
	if !skip && g.server.traits.Evidence && !g.server.fits(server, ids.Server) {
		return ledger.Evidence{Now: g.reader.steady(ids)}, nil
	}
	if ids.Cut {
		ranges = ledger.Clip(ranges, ids.List[len(ids.List)-1])
	}
	return ledger.Evidence{Ranges: ranges, IDs: ids.List, Now: g.reader.steady(ids)}, nil
}

// sweep looks for a part of the cold ids, when that is due.
func (g *gaps) sweep(ctx context.Context, server string, at ledger.Age) error {
	if ledgerOff() {
		return nil
	}
	ranges := g.ledger.Sweep(at.Steady)
	if len(ranges) == 0 {
		return nil
	}
	evidence, err := g.evidence(ctx, server, ranges)
	if err != nil {
		return err
	}
	g.unpolled(g.ledger.Swept(evidence))
	return nil
}

// warn reports whether a minute has passed since the last warning about gaps.
func (g *gaps) warn() bool {
	if time.Since(g.warned) < heldOpen {
		return false
	}
	g.warned = time.Now()
	return true
}

// show shows the gaps in the status, and warns of a transaction that is held open.
func (g *gaps) show(at ledger.Age) {
	if time.Since(g.shown) < stateEvery {
		return
	}
	g.shown = time.Now()
	stats := g.ledger.Stats(at.Steady)
	var oldest time.Duration
	if !stats.Oldest.IsZero() {
		oldest = max(0, at.Steady.Sub(stats.Oldest))
	}
	g.status.update(func(status *Status) {
		status.Gaps = Gaps{
			Hot: stats.Hot, Cold: stats.Cold, InFlight: stats.Pending, Unpolled: stats.Unpolled, Ranges: stats.Ranges, Bytes: stats.Bytes,
			OldestAge: oldest, Oldest: g.ledger.Gaps(gapsShown),
		}
		status.OpenGaps = stats.Ranges
	})
	g.warnOfStrays()
	if open := g.ledger.Pending(heldOpen, 1, at.Steady); len(open) > 0 && g.warn() {
		g.opts.Logger.Warn("a transaction holds inserted rows open for long, they are published when it commits",
			"first", open[0].First, "last", open[0].Last, "for", at.Steady.Sub(open[0].Since).Round(time.Second))
	}
}

// advance moves the ledger behind what the batch takes care of and hands its changes to the batch,
// to be saved once that is acknowledged. While nothing is published it does so now and then.
func (g *gaps) advance(b *batch, at ledger.Age) error {
	l := g.ledger
	if l == nil {
		return nil
	}
	idle := len(b.passed) == 0
	for _, id := range b.filled {
		if l.Fill(id, at.Steady) {
			idle = false
			g.opts.Metrics.late.WithLabelValues(g.opts.Stream).Inc()
		}
	}
	if n := len(b.passed); n > 0 {
		l.Advance(b.passed[n-1], b.passed, at.Steady)
	}
	b.last = l.Position()
	if idle && (time.Since(g.handed) < saveLedgerEvery || !l.Open()) {
		return l.Err()
	}
	g.handed = time.Now()
	l.Saved(g.kept.Load())
	b.ledger, b.ledgerCall = l.Changed(), l.Calls()
	// With GapHold there are gaps above the position, too.
	b.gaps = slices.DeleteFunc(l.Gaps(gapsShown), func(g ledger.Gap) bool { return g.Last > b.last })
	return l.Err()
}

// ahead reports whether the row with this id is for the tail or the ledger to publish.
func (g *gaps) ahead(id uint64) bool {
	return g.ledger != nil && (id > g.ledger.Position() || g.ledger.Missing(id))
}

// missing reports whether an id below the position was not seen.
func (g *gaps) missing(id uint64) bool { return g.ledger != nil && g.ledger.Missing(id) }

// position returns the position of the ledger, 0 where there is none.
func (g *gaps) position() uint64 {
	if g.ledger == nil {
		return 0
	}
	return g.ledger.Position()
}

// saved notes that a save of the ledger is durable. Any goroutine may call it.
func (g *gaps) saved(call uint64) { g.kept.Store(call) }

// isOpen reports whether there are gaps to look for.
func (g *gaps) isOpen() bool { return g.ledger != nil && g.ledger.Open() }

// readAt returns the clock that counts as the time of a late record without a time of its own: when
// its id was first missed, which is saved.
// Invariant 4: a repeat after a crash has the same time and so the same bytes.
func (g *gaps) readAt(id uint64) time.Time {
	missed, _ := g.ledger.MissedAt(id)
	return missed
}
