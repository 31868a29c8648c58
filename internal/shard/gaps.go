package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// gaps keeps the progress of a shard while it runs, with the ledger of the ids that were not seen,
// and reads the evidence by which the ledger judges them. It belongs to the owner.
type gaps struct {
	opts   *Options
	reader *reader
	server *server
	status *tracker
	// state is that of the feed of the stream, since the generation of the progress that it had
	// when the attempt began. Facts come in at any time: all is done under the lock of state.
	state *stream.ShardState
	since uint64
	// ids is what the last evidence showed.
	ids idList
	// strays are the ends of the wide gaps that were told of.
	strays []uint64
	// spread says that the ids are far apart, and no gap is that of a stray one.
	spread bool
	// changes is the second cursor, nil where there is none; pipe leads to the publisher, nil while
	// there is none.
	changes *changes
	pipe    *pipe
	// at is the steady time of the last change of the progress, seen that of the last poll.
	at, seen time.Time
	// handed, shown and warned are when the progress was last handed over, shown in the status, and
	// complained about.
	handed, shown, warned time.Time
}

const (
	// lateRows bounds the rows of one probe, above what a ledger asks for in vain.
	lateRows = 2048
	// evidenceIDs bounds the ids of one evidence or part of a sweep.
	evidenceIDs = 200_000
	// saveLedgerEvery and stateEvery are how often a ledger is saved while nothing is published,
	// and shown in the status.
	saveLedgerEvery = 30 * time.Second
	stateEvery      = time.Second
	// heldOpen is how long an id may be in flight before that is worth a warning, each time as long
	// again.
	heldOpen = time.Minute
)

// with calls do with the ledger, nil where the ids have no order.
func (g *gaps) with(do func(*ledger.Ledger)) {
	p, unlock := g.state.Lock()
	defer unlock()
	do(p.Ledger())
}

func (o *Options) damaged(err error) error {
	if !stream.IsDamaged(err) {
		return err
	}
	return fmt.Errorf("%w: %w: bridge checkpoint rebuild %s makes it again from the bus", source.ErrUnfit, err, o.Stream)
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
	}
}

// seed returns how the progress of a shard begins of which nothing is known: what is not committed
// just below is missing from the beginning, so that it is not lost.
func (g *gaps) seed(ctx context.Context, first store.Progress, epoch uint64) (stream.Beginning, error) {
	b := stream.Beginning{First: first, Epoch: epoch, At: time.Now(), Now: time.Now()}
	if seed := stream.SeedRange(first); !g.server.tailless() && seed.First <= seed.Last {
		g.ids = idList{}
		if err := g.reader.ids(ctx, []source.Range{seed}, false, &g.ids); err != nil {
			return b, err
		}
		b.Committed, b.At = g.ids.List, g.reader.steady(&g.ids)
	}
	return b, nil
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
		ranges = source.RangesThrough(ranges, ids.List[len(ids.List)-1])
	}
	return ledger.Evidence{Ranges: ranges, IDs: ids.List, Now: g.reader.steady(ids), Partial: skip || !g.server.traits.Evidence}, nil
}

// sweep looks for a part of the cold ids, when that is due.
func (g *gaps) sweep(ctx context.Context, server string, at ledger.Age) error {
	var ranges []source.Range
	g.with(func(l *ledger.Ledger) { ranges = l.Sweep(at.Steady) })
	if len(ranges) == 0 {
		return nil
	}
	evidence, err := g.evidence(ctx, server, ranges)
	if err != nil {
		return err
	}
	g.with(func(l *ledger.Ledger) { g.unpolled(l.Swept(evidence)) })
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
	g.seen = at.Steady
	if time.Since(g.shown) < stateEvery {
		return
	}
	g.shown = time.Now()
	var why error
	if g.opts.Movers != nil {
		var since time.Time
		since, why = g.opts.Movers.Waits(g.opts.Name)
		g.status.leave(findMoves, since)
	}
	p, unlock := g.state.Lock()
	defer unlock()
	l := p.Ledger()
	stats := l.Stats(at.Steady)
	var oldest float64
	if !stats.Oldest.IsZero() {
		oldest = max(0, at.Steady.Sub(stats.Oldest).Seconds())
	}
	lowest := append([]ledger.Gap{}, l.Gaps(gapsShown)...)
	for i := range lowest {
		lowest[i].Missed = lowest[i].Missed.UTC()
	}
	g.status.update(func(status *Status) {
		status.Gaps = Gaps{
			Hot: stats.Hot, Cold: stats.Cold, InFlight: stats.Pending, Unpolled: stats.Unpolled, Ranges: stats.Ranges, Bytes: stats.Bytes,
			OldestSeconds: oldest, Oldest: lowest,
		}
		status.OpenGaps = stats.Ranges
	})
	g.warnOfStrays(l.Wide())
	if open := l.Pending(heldOpen, 1, at.Steady); why == nil && len(open) > 0 && g.warn() {
		g.opts.Logger.Warn("a transaction holds inserted rows open for long, they are published when it commits",
			"first", open[0].First, "last", open[0].Last, "for", at.Steady.Sub(open[0].Since).Round(time.Second))
	}
}

// advance has the batch, which must be handed over then, bring what was read for it: the progress
// moves once the bus has acknowledged it. Before, the store has the batch before.
func (g *gaps) advance(ctx context.Context, b *batch, at ledger.Age) error {
	if err := g.pipe.wait(ctx); err != nil {
		return err
	}
	g.handed, g.at = time.Now(), at.Steady
	if own := g.opts.Feed.Republish(g.opts.Name); b.republished == nil && b.claims != nil && b.claims.Moved && own != nil && own.List != "" && g.opts.Feed.Lists().Last().Running() {
		// The table that had the entity may have ended without it.
		b.republished = &stream.Republished{Number: own.Number, State: stream.Republishing}
	}
	b.brings = stream.Read{
		Shard: g.opts.Name, Since: g.since, Compared: b.compared, Claims: b.claims, Republished: b.republished,
		Through: b.through, Passed: b.passed, Filled: b.filled, At: at.Steady, Now: b.made,
	}
	if g.changes != nil {
		b.brings.Cursor = g.changes.handOver()
	}
	p, unlock := g.state.Lock()
	defer unlock()
	if err := g.state.Err(); err != nil {
		return g.opts.damaged(err)
	}
	b.last = max(p.Position(), b.through)
	b.floor, b.since = p.State().Floor, p.State().Since
	if g.opts.Kind == event.Release {
		b.low = p.NextLow()
	}
	return nil
}

// toPublish reports whether the row with this id is for the tail or the ledger to publish. Nothing
// is on its way.
func (g *gaps) toPublish(id uint64) (is bool) {
	g.with(func(l *ledger.Ledger) { is = l != nil && (id > l.Position() || l.Missing(id)) })
	return is
}

// missing reports whether an id below the position was not seen.
func (g *gaps) missing(id uint64) (is bool) {
	g.with(func(l *ledger.Ledger) { is = l != nil && l.Missing(id) })
	return is
}

// floor returns the id up to which rows are recorded and not published where the view has nothing
// of them, 0 where it has all that were there when the shard began: then a row without an entry is
// new, also one below the floor. With a lost store those that were recorded are unknown until a
// reconcile has compared the table (rule 16). Ids without an order do not tell.
func (g *gaps) floor() uint64 {
	s := g.stored()
	if s.Snapshot == (source.Range{}) && (!s.ReconcileDue || g.server.tailless()) {
		return 0
	}
	// A command may have put the shard further on than the floor.
	return max(s.Floor, s.Snapshot.Last)
}

// snapshot returns the ids that START=latest still has to record. Of a release shard the position
// says enough.
func (g *gaps) snapshot() source.Range {
	p, unlock := g.state.Lock()
	defer unlock()
	if g.opts.Kind == event.Release {
		p.SetSnapshot(source.Range{})
	}
	return p.State().Snapshot
}

// stored returns how far the shard is published, as of the last batch.
func (g *gaps) stored() store.Progress {
	p, unlock := g.state.Lock()
	defer unlock()
	return p.State()
}

func (g *gaps) position() uint64 { return g.stored().Position }

// ahead reports whether the row with this id, behind the position, is on the bus already (rule 15).
func (g *gaps) ahead(id uint64) bool {
	p, unlock := g.state.Lock()
	defer unlock()
	return p.Ahead(id)
}

// hot reports whether there are gaps that every poll looks for.
func (g *gaps) hot() (is bool) {
	g.with(func(l *ledger.Ledger) { is = l != nil && l.Open() && l.Stats(g.seen).Hot > 0 })
	return is
}

func (g *gaps) isOpen() (is bool) {
	g.with(func(l *ledger.Ledger) { is = l != nil && l.Open() })
	return is
}

const reasonTTL = "ttl"

// unpolled counts the ids that are no longer polled, and warns of them at most once a minute.
func (g *gaps) unpolled(gone []ledger.Unpolled) {
	if len(gone) == 0 {
		return
	}
	ids := uint64(0)
	for _, g := range gone {
		ids += g.IDs
	}
	g.opts.Metrics.givenUp.WithLabelValues(g.opts.Stream, reasonTTL).Add(float64(ids))
	if g.warn() {
		g.opts.Logger.Warn("ids have been vacant for GAP_TTL and are no longer polled; a row that still appears there is published by reconcile",
			"first", gone[0].First, "last", gone[len(gone)-1].Last, "ids", ids, "missed", gone[0].Missed)
	}
}

// spreadGaps is from how many wide gaps on ids count as far apart, so that none of them is stray.
const spreadGaps = 3

// warnOfStrays warns once of each wide gap that the ledger watches the low end of. Ids that hold a
// time leave one behind every row, which is no fault: it is told once.
func (g *gaps) warnOfStrays(wide []ledger.Gap) {
	for _, gap := range wide {
		if g.spread || slices.Contains(g.strays, gap.Last) {
			continue
		}
		if len(wide) >= spreadGaps || holdsTime(gap.Last+1) && (gap.First == 1 || holdsTime(gap.First-1)) {
			g.spread = true
			g.opts.Logger.Info("ids are far apart, as those that hold a time are: missing ids between rows are polled as all others, and "+
				"the first million ids of the eight widest gaps stay polled", "last_id_before", gap.First-1, "id", gap.Last+1)
			continue
		}
		g.strays = append(g.strays, gap.Last)
		g.opts.Logger.Warn("ids jump: the position is behind a wide gap. Rows that go on at its low end are published as late rows, "+
			"the first million ids of it stay polled. If the id behind the gap was inserted by mistake, delete its row and go back with "+
			"bridge checkpoint set", "last_id_before", gap.First-1, "stray_id", gap.Last+1, "missed", gap.Missed,
			"command", fmt.Sprintf("bridge checkpoint set %s %s %d", g.opts.Stream, g.opts.Name, gap.First-1))
	}
}

// holdsTime reports whether an id can be one of Snowflake's kind, milliseconds above 22 bits, or of
// Baidu's uid-generator, seconds above 35, since an epoch that lies between three days and twenty
// years back.
func holdsTime(id uint64) bool {
	const day = 24 * 60 * 60
	within := func(since, second uint64) bool { return since > 3*day*second && since < 20*365*day*second }
	return within(id>>22, 1000) || within(id>>35, 1)
}

// Cause is why a shard is stopped: the same word for errors with the same remedy.
type Cause = null.Text

// The causes of a stop.
const (
	CauseMissing         Cause = "missing"
	CauseDenied          Cause = "denied"
	CauseUnfit           Cause = "unfit"
	CauseIDsReused       Cause = "idsReused"
	CauseConfiguration   Cause = "configuration"
	CauseSchema          Cause = "schema"
	CauseBusLost         Cause = "busLost"
	CauseBusUnreadable   Cause = "busUnreadable"
	CauseSuperseded      Cause = "superseded"
	CauseRefused         Cause = "refused"
	CauseDeadLetterLimit Cause = "deadLetterLimit"
	CauseBadValue        Cause = "badValue"
	CauseCheckpoint      Cause = "checkpoint"
	CauseOther           Cause = "other"
)

// sentinels are the errors of causes. The first that an error wraps tells its cause.
var sentinels = []struct {
	err   error
	cause Cause
}{
	{ErrIDsReused, CauseIDsReused}, {ErrOtherMeaning, CauseConfiguration}, {ErrSchemaChanged, CauseSchema},
	{stream.ErrSuperseded, CauseSuperseded}, {sink.ErrFenced, CauseSuperseded},
	{sink.ErrBehind, CauseBusLost}, {sink.ErrUnreadable, CauseBusUnreadable},
	{source.ErrMissing, CauseMissing}, {source.ErrDenied, CauseDenied}, {source.ErrUnfit, CauseUnfit},
	{store.ErrDamaged, CauseCheckpoint},
}

func causeOf(err error) Cause {
	if _, limit := errors.AsType[*deadLetterLimitError](err); limit {
		return CauseDeadLetterLimit
	}
	if _, refused := errors.AsType[*sink.RejectedError](err); refused {
		return CauseRefused
	}
	if _, bad := errors.AsType[*event.BadValueError](err); bad {
		return CauseBadValue
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.cause
		}
	}
	return CauseOther
}
