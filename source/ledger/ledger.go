package ledger

import (
	"cmp"
	"slices"
	"time"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// Ledger has the ids at or below a shard's read position that are not handed over, decides which of
// them to read and when, and learns from what was read. The package documentation shows a poll. It
// serves one goroutine, the owner of the shard.
type Ledger struct {
	opts  Options
	clock clock
	state state
	probe prober
	sweep sweeper
}

// Gap is a closed range of ids that were not published.
type Gap struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Missed is when the gap was first noticed, by the database's clock.
	Missed time.Time `json:"missed"`
}

// Evidence is a read of ids that shows uncommitted rows too, where the database can show them.
type Evidence struct {
	// Ranges are the ids that were read completely, ascending and disjoint.
	Ranges []source.Range
	// IDs are the ids that exist in Ranges, ascending. Others do no harm.
	IDs []uint64
	// Now is the steady time of the read.
	Now time.Time
	// Partial says that transactions may be open of which IDs has nothing. An id that was pending
	// in evidence that is not partial stays so until GapTTL after it was last seen, save with
	// GapHold.
	Partial bool
}

// Unpolled are vacant ids that were first missed so long ago that they are no longer polled. They
// stay missing.
type Unpolled struct {
	// Range contains all of them, IDs is how many they are.
	source.Range
	IDs uint64
	// Missed is when the first of them was first missed.
	Missed time.Time
}

// New returns an empty ledger at position. To start elsewhere than at the beginning of a table,
// make it at a position some way below the start and Advance over the committed ids between: those
// that are uncommitted there are then missing.
func New(opts Options, position uint64) (*Ledger, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	l := &Ledger{opts: opts, state: newState(opts, position)}
	l.reset()
	return l, nil
}

func (l *Ledger) reset() {
	l.probe = prober{state: &l.state, opts: &l.opts}
	l.sweep = sweeper{every: l.opts.SweepEvery.Microseconds()}
}

// Position returns the read position: how far the shard was read and handed over.
func (l *Ledger) Position() uint64 { return l.state.position }

// See notes that the table has ids up to maxID at now. Call it with every page before anything
// else. An id counts as missed from when an id at least as high was first seen: it was allocated by
// then. So the gaps of a backlog grow old together.
func (l *Ledger) See(maxID uint64, now time.Time) {
	t := l.clock.tick(now)
	if maxID > l.state.noticed {
		l.state.highs = l.state.highs.add(maxID, t)
	}
}

// Advance moves the position to through. The ids between become missing, except those that are
// handed over, which must be ascending. They count as missed from when See first had an id at least
// as high. A through at or below the position changes nothing.
func (l *Ledger) Advance(through uint64, handedOver []uint64, now time.Time) {
	l.Pass(through, source.RangesOf(handedOver), now)
}

// Pass is Advance with ranges of ids that are handed over, which must be ascending and disjoint.
func (l *Ledger) Pass(through uint64, handedOver []source.Range, now time.Time) {
	if s := &l.state; through > s.position {
		s.notice(through, source.RangesThrough(handedOver, through), l.clock.tick(now))
		s.position, s.sure = through, max(s.sure, through)
	}
}

// Notice makes the ids missing that a page after the position skips, without moving the position.
// ids are all the ids of the page, ascending. Only GapHold needs it.
func (l *Ledger) Notice(ids []uint64, now time.Time) {
	l.state.sure = l.state.position
	if n := len(ids); n > 0 {
		l.state.notice(ids[n-1], source.RangesOf(ids), l.clock.tick(now))
	}
}

// Reach returns how far GapHold may publish, at most through: up to the first gap that may still be
// filled. A gap no longer may when its hot time has passed and the evidence that was read since the
// last Notice shows it vacant.
func (l *Ledger) Reach(through uint64, now time.Time) uint64 {
	s, t := &l.state, l.clock.tick(now)
	if through <= s.position {
		return through
	}
	// A ledger that was restored since the last Notice knows of no gaps above.
	through = min(through, s.noticed)
	for g := range s.missing.ascend(source.Range{First: s.position + 1, Last: through}) {
		if t-g.missed < s.hotFor || g.Last > s.sure || s.pending.overlaps(g.Range) {
			return g.First - 1
		}
	}
	return through
}

// Missing reports whether id is at or below the position and not handed over: a row with it is a
// late row.
func (l *Ledger) Missing(id uint64) bool { return id <= l.state.position && l.state.missing.has(id) }

// Young notes that the row with this missing id was read and is too young to be published: it does
// not count as pending in the next evidence.
func (l *Ledger) Young(id uint64) { l.state.pending.young = append(l.state.pending.young, id) }

// Appeared notes that the committed read of a poll has the row with this missing id. So its
// transaction has committed, and most likely the other pending ids next to it: until the next
// evidence without such a row they do not count as pending, and probes read them as a whole.
func (l *Ledger) Appeared(id uint64) {
	if one := l.state.pending.at(id); one != nil {
		one.shown, one.arrived = false, 2
	}
}

// Arriving reports whether ids are still missing next to which rows have appeared: more of them are
// likely to be there. Evidence may wait while they are read: it says nothing about an id that a
// committed read finds anyway.
func (l *Ledger) Arriving() bool {
	return slices.ContainsFunc(l.state.pending.list, func(one pendingRange) bool {
		return one.arrived > 0 && l.state.missing.any(one.Range)
	})
}

// Fill removes a missing id, whose row is handed over as a late row, and reports whether it was
// missing. Call it only when the row will be handed over with the next Changed: only a restart
// undoes it.
func (l *Ledger) Fill(id uint64, now time.Time) bool {
	s, t := &l.state, l.clock.tick(now)
	if id > s.position {
		return false
	}
	rest, ok := s.missing.fill(id, t)
	if !ok {
		return false
	}
	if one := s.pending.at(id); one != nil {
		// Its transaction has committed: the next evidence tells which ids are still pending.
		one.shown = false
	}
	if s.segmented {
		s.pending.makeHot(id, rest, t)
	}
	return true
}

// FillAll removes missing ids that lie in ranges, which must be ascending and disjoint: the bus
// holds their rows. It costs one pass over the parts that ranges touch. A zero now is that of the
// call before.
func (l *Ledger) FillAll(ranges []source.Range, now time.Time) {
	s, t := &l.state, l.clock.tick(now)
	ranges = source.RangesThrough(ranges, s.position)
	s.missing.removeAll(ranges, t)
	for i := range s.pending.list {
		if one := &s.pending.list[i]; one.shown && overlap(ranges, one.Range) {
			one.shown = false
		}
	}
}

// EndPolling ends the polling of the missing ids at or below id, except those that are pending and
// the fronts of wide gaps. They stay missing.
func (l *Ledger) EndPolling(id uint64) {
	m := l.state.missing
	for k := range m.segments {
		if ids, at := m.segment(k), &m.segments[k]; ids.First <= id {
			at.expired = max(at.expired, min(id, ids.Last, l.state.position))
			at.observed = max(at.observed, at.expired)
			l.state.unsaved = true
		}
	}
}

// Hot returns what to read at this poll: every hot id, where they fit into MaxRanges ranges with no
// more ids in between than MaxRows and MaxIDs. Where they do not fit, those that no evidence has
// covered, pending ids, the newest, and blocks come first, and the others take turns. Without hot
// ids it has the fronts of wide gaps alone. Call it once a poll.
func (l *Ledger) Hot(now time.Time) Probe {
	l.state.pending.young = l.state.pending.young[:0]
	return l.probe.next(l.clock.tick(now))
}

// CutOff notes that a limit cut off the read of the rows of a probe after the row with this id.
func (l *Ledger) CutOff(id uint64) { l.probe.cut = id }

// Observe learns from the evidence for Hot. A missing id that it shows is pending, or committed
// since the rows were read, and stays hot; one in its ranges that it does not show is vacant. It
// must have been read after the committed rows of the same poll. Observe returns the vacant ids
// whose time is over.
func (l *Ledger) Observe(e Evidence) []Unpolled {
	l.probe.read(e.Ranges)
	return l.state.observe(e, &l.clock)
}

// Sweep returns the next part of the cold ids to read, nil when no sweep is due: one begins every
// SweepEvery, or when the last has ended, whichever is later. Read the ids in the ranges as for
// Observe and pass them to Swept; the same part comes again until then. As many parts may be read
// in one poll as there is time for.
func (l *Ledger) Sweep(now time.Time) []source.Range {
	return l.sweep.next(&l.state, l.clock.tick(now))
}

// Swept learns from the evidence for a part of the sweep. An id that it shows is hot from now on,
// so that the next poll finds its row. It returns the vacant ids whose time is over.
func (l *Ledger) Swept(e Evidence) []Unpolled {
	l.sweep.read(e.Ranges)
	return l.state.observe(e, &l.clock)
}

// MoveTo puts the position at an id, on behalf of a person who overrides the checkpoint. Ids that
// are missing at or below both positions stay missing. Those above are forgotten: rows after a
// lower position are read again, and rows that a higher one skips count as handed over. Pending ids
// are forgotten too; the next evidence shows them. Afterwards Changed returns all parts: those that
// were saved before are to be removed.
func (l *Ledger) MoveTo(id uint64) {
	s := &l.state
	last, missed := min(id, s.position), int64(-1<<63)
	kept := newSet(nil)
	for g := range s.missing.ascend(source.Range{Last: last}) {
		// Times ascend within a segment, and the wide gaps between segments may be cut.
		missed = max(missed, g.missed)
		kept.add(gap{g.Range, missed})
	}
	kept.err = s.missing.err
	s.missing, s.highs = kept, nil
	s.pending.list, s.pending.young = nil, nil
	s.position, s.noticed, s.sure = id, id, id
	l.reset()
}

// Unpublished calls yield for the ranges of all missing ids, ascending, until it returns false. It
// must not change the ledger.
func (l *Ledger) Unpublished(yield func(source.Range) bool) {
	for g := range l.state.missing.ascend(source.Range{Last: 1<<64 - 1}) {
		if !yield(g.Range) {
			return
		}
	}
}

// Low returns the id below which no missing id is looked up any more: each row below it was
// published, or its id was given up after GapTTL. The low ends of wide gaps and pending ids are
// looked up whatever their age.
func (l *Ledger) Low() uint64 {
	s := &l.state
	low := max(s.position, s.position+1)
	lower := func(r source.Range) {
		if r.First < low {
			for g := range s.missing.ascend(r) {
				low = min(low, g.First)
				break
			}
		}
	}
	for k := range s.missing.segments {
		lower(s.polled(k))
	}
	for _, w := range s.missing.wide() {
		lower(front(w))
	}
	for i := range s.pending.list {
		lower(s.pending.list[i].Range)
	}
	return low
}

// Open reports whether any id is polled, or there is something to save.
func (l *Ledger) Open() bool {
	s := &l.state
	if s.unsaved || s.missing.top() > 0 || len(s.pending.list) > 0 {
		return true
	}
	// Without wide gaps there is one segment.
	return s.missing.any(s.polled(0).Intersect(source.Range{Last: s.noticed}))
}

// GapPolicy says what the tail does at a gap.
type GapPolicy string

// The gap policies.
const (
	// GapLate goes on past a gap; a row that appears in it later is published as a late row.
	GapLate GapPolicy = "late"
	// GapHold waits at a gap until it is filled or has been vacant for the hot time, so that ids
	// are published in strictly ascending order.
	GapHold GapPolicy = "hold"
)

// Options describe a ledger. The zero value is a ledger of the late policy over one counter.
type Options struct {
	// HotFor is how long a vacant id is polled, counted from when it was first missed or last
	// pending. It should exceed the time that a statement may wait between allocating an id and
	// inserting the row: 1.2 times innodb_lock_wait_timeout. Defaults to 60 s.
	HotFor time.Duration
	// GapTTL is how long after it was first missed a vacant id is swept. A hot id is polled even
	// longer, and so is the front of a wide gap. Defaults to 24 h.
	GapTTL time.Duration
	// SweepEvery is the time between the beginnings of two sweeps over the cold ids. Defaults to
	// 1 minute.
	SweepEvery time.Duration
	// Policy defaults to GapLate. GapHold is refused with OrderSegmented.
	Policy GapPolicy
	// Order defaults to OrderStrict. With OrderSegmented vacant ids stay hot until GapTTL.
	Order source.IDOrder
	// MaxBytes bounds the memory of the parts that are saved, where Load is set. About 110 bytes a
	// part come on top, a few hundredths of its size. Defaults to 4 MiB; the least is 64 KiB.
	MaxBytes int
	// Load returns a part as it was saved last, for parts that are not in memory. Without it all
	// parts stay in memory. The goroutine that the ledger serves calls it.
	Load func(key uint64) ([]byte, error)
	// Away is how much time has passed since a restored ledger was saved, by the host's clock. Gaps
	// age by no more than that, whatever the database's clock says.
	Away time.Duration
	// MaxRanges bounds the ranges of a probe. Defaults to 256.
	MaxRanges int
	// MaxRows and MaxIDs bound how many ids that are not missing a probe reads, since neighbouring
	// gaps are merged: in its read of rows and its read of ids. Default to 1024 and 4096.
	MaxRows, MaxIDs int
}

const minLedgerBytes = 64 << 10

func (o *Options) complete() error {
	o.HotFor = cmp.Or(o.HotFor, time.Minute)
	o.GapTTL = cmp.Or(o.GapTTL, 24*time.Hour)
	o.SweepEvery = cmp.Or(o.SweepEvery, time.Minute)
	o.Policy = cmp.Or(o.Policy, GapLate)
	o.Order = cmp.Or(o.Order, source.OrderStrict)
	o.MaxBytes = max(cmp.Or(o.MaxBytes, 4<<20), minLedgerBytes)
	o.MaxRanges = cmp.Or(o.MaxRanges, 256)
	o.MaxRows = cmp.Or(o.MaxRows, 1024)
	o.MaxIDs = cmp.Or(o.MaxIDs, 4<<10)
	o.Away = max(o.Away, 0)
	switch {
	case o.Order == source.OrderNone:
		return option.Errorf("ids without an order have no tail and no gaps: %s=none goes by reconcile alone", option.IDOrder)
	case o.Policy == GapHold && o.Order == source.OrderSegmented:
		return option.Errorf("%s=hold would wait for whole blocks of ids: with %s=segmented use %s=late",
			option.GapPolicy, option.IDOrder, option.GapPolicy)
	}
	return nil
}
