package ledger

import (
	"time"

	"bridge/source"
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

// reset forgets which reads are under way.
func (l *Ledger) reset() {
	l.probe, l.sweep = newProber(&l.state, l.opts), sweeper{every: l.opts.SweepEvery.Microseconds()}
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
	if through > l.state.position {
		l.state.advance(through, handedOver, l.clock.tick(now))
	}
}

// Notice makes the ids missing that a page after the position skips, without moving the position.
// ids are all the ids of the page, ascending. Only GapHold needs it.
func (l *Ledger) Notice(ids []uint64, now time.Time) {
	l.state.sure = l.state.position
	if len(ids) > 0 {
		l.state.notice(ids[len(ids)-1], ids, l.clock.tick(now))
	}
}

// Reach returns how far GapHold may publish, at most through: up to the first gap that may still be
// filled. A gap no longer may when its hot time has passed and the evidence that was read since the
// last Notice shows it vacant.
func (l *Ledger) Reach(through uint64, now time.Time) uint64 {
	return l.state.reach(through, l.clock.tick(now))
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
func (l *Ledger) Appeared(id uint64) { l.state.pending.appeared(id) }

// Arriving reports whether ids are still missing next to which rows have appeared: more of them are
// likely to be there. Evidence may wait while they are read: it says nothing about an id that a
// committed read finds anyway.
func (l *Ledger) Arriving() bool { return l.state.pending.arriving(l.state.missing) }

// Fill removes a missing id, whose row is handed over as a late row, and reports whether it was
// missing. Call it only when the row will be handed over with the next Changed: only a restart
// undoes it.
func (l *Ledger) Fill(id uint64, now time.Time) bool { return l.state.fill(id, l.clock.tick(now)) }

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
// are forgotten too; the next evidence shows them. Save All afterwards: every part may have
// changed.
func (l *Ledger) MoveTo(id uint64) {
	l.state.moveTo(id)
	l.reset()
}

// Unpublished calls yield for the ranges of all missing ids, ascending, until it returns false. It
// must not change the ledger.
func (l *Ledger) Unpublished(yield func(source.Range) bool) {
	l.state.missing.missingIn(source.Range{First: 0, Last: 1<<64 - 1}, yield)
}

// Low returns the id below which no missing id is looked up any more: each row below it was
// published, or its id was given up after GapTTL. The low ends of wide gaps and pending ids are
// looked up whatever their age.
func (l *Ledger) Low() uint64 { return l.state.low() }

// Open reports whether any id is polled, or there is something to save.
func (l *Ledger) Open() bool {
	s := &l.state
	if s.unsaved || len(s.missing.wide) > 0 || len(s.pending.list) > 0 {
		return true
	}
	// Without wide gaps there is one segment.
	ids := s.polled(0)
	return s.missing.any(source.Range{First: ids.First, Last: min(ids.Last, s.noticed)})
}
