package source

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Range is a closed range of ids.
type Range struct{ First, Last uint64 }

// GapPolicy says what the tail does at a gap.
type GapPolicy string

// The gap policies.
const (
	// GapLate goes on past a gap; what turns up in it later is published as a late record.
	GapLate GapPolicy = "late"
	// GapHold waits at a gap until it is filled or has been vacant for the hot time, so that ids come strictly ascending.
	GapHold GapPolicy = "hold"
)

// IDOrder says how ids are handed out.
type IDOrder string

// The orders of ids.
const (
	// OrderStrict is one counter.
	OrderStrict IDOrder = "strict"
	// OrderStrided is several nodes whose counters interleave.
	OrderStrided IDOrder = "strided"
	// OrderSegmented is writers that hold blocks of ids and use them up at their own pace.
	OrderSegmented IDOrder = "segmented"
	// OrderNone is no order at all: no tail, hence no ledger.
	OrderNone IDOrder = "none"
)

// LedgerOptions describe a ledger. The zero value is a ledger of the late policy over one counter.
type LedgerOptions struct {
	// HotFor is how long a vacant id is looked for at every poll, counted from when it was first missed or last in flight.
	// It should exceed the time that a statement may wait between taking an id and inserting the row: 1.2 times
	// innodb_lock_wait_timeout. Defaults to 60 s.
	HotFor time.Duration
	// GapTTL is how long after it was first missed a vacant id is looked for at all. What is hot is looked for even longer.
	// Defaults to 24 h.
	GapTTL time.Duration
	// Policy defaults to GapLate. GapHold is refused with OrderSegmented.
	Policy GapPolicy
	// Order defaults to OrderStrict. With OrderSegmented vacant ids stay hot until GapTTL.
	Order IDOrder
	// MaxBytes bounds the memory of the ledger, and what it takes in a checkpoint. Defaults to 16 MiB, which holds some
	// four million scattered gaps; the least is 64 KiB.
	MaxBytes int
	// Away is how much time has passed since a restored ledger was saved, by the host's clock: gaps have aged no more than
	// that, whatever the database's clock says. 0 means that they have not aged.
	Away time.Duration
	// MaxRanges bounds the ranges of a probe. Defaults to 256.
	MaxRanges int
	// MaxRows and MaxIDs bound how many ids that were seen already one probe reads again in vain, since neighbouring gaps
	// are merged: by its read of rows and its read of ids. Default to 1024 and 4096.
	MaxRows, MaxIDs int
}

const (
	minLedgerBytes = 64 << 10
	// sweepEvery is the time from the beginning of one sweep over the cold ids to that of the next.
	sweepEvery = time.Minute
	// sweepIDs and sweepRanges bound one part of a sweep, as MaxIDs and MaxRanges bound a probe.
	sweepIDs    = 100_000
	sweepRanges = 512
)

func (o *LedgerOptions) complete() error {
	setDefault(&o.HotFor, time.Minute)
	setDefault(&o.GapTTL, 24*time.Hour)
	setDefault(&o.Policy, GapLate)
	setDefault(&o.Order, OrderStrict)
	setDefault(&o.MaxBytes, 16<<20)
	setDefault(&o.MaxRanges, 256)
	setDefault(&o.MaxRows, 1024)
	setDefault(&o.MaxIDs, 4<<10)
	o.MaxBytes = max(o.MaxBytes, minLedgerBytes)
	o.Away = max(o.Away, 0)
	switch {
	case o.HotFor < 0 || o.GapTTL < 0:
		return errors.New("the hot time and GAP_TTL must not be negative")
	case o.Policy != GapLate && o.Policy != GapHold:
		return fmt.Errorf("GAP_POLICY is %q: want late or hold", o.Policy)
	case o.Order == OrderNone:
		return errors.New("ids without an order have no tail and no gaps: ID_ORDER=none goes by reconcile alone")
	case o.Order != OrderStrict && o.Order != OrderStrided && o.Order != OrderSegmented:
		return fmt.Errorf("ID_ORDER is %q: want strict, strided, segmented or none", o.Order)
	case o.Policy == GapHold && o.Order == OrderSegmented:
		return errors.New("GAP_POLICY=hold would wait for whole blocks of ids: with ID_ORDER=segmented use GAP_POLICY=late")
	}
	return nil
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Ledger keeps the ids at or below a shard's position that have not been seen, decides what to look for and when, and learns from
// what was found. It is pure: times and what was read come in as arguments. It serves one goroutine, the owner of the shard.
//
// An id is missing from when the position passes it, or with GapHold from when a page shows a higher one, until Fill or a page
// takes it. A missing id is in flight when the last evidence showed it, vacant otherwise; hot ids are looked for at every poll,
// cold ones in a sweep every minute, and those that have been vacant for too long are given up.
//
// # Driving it
//
// One poll of the owner with GapLate, each read begun after the one before has ended:
//
//	page := read committed rows behind Position()
//	See(page.MaxID, now)
//	probe := Hot(now)                                 // empty: no reads
//	rows := read committed rows in probe.Rows         // those Missing and stable are late records
//	found := read ids in probe.IDs, READ UNCOMMITTED  // or READ COMMITTED where there is no evidence
//	given := Judge(Evidence{probe.IDs, found, now})
//	encode the late records and the stable records of the page; then, for what was encoded:
//	Fill(late ids), Pass(highest id published, ids published, now)
//	hand the batch on together with Changed(), to be saved once the batch is acknowledged
//
// With GapHold the page is noticed before the evidence and what may be published of it asked for after it:
//
//	Notice(ids of the page, now) … Hot, reads, Judge … Reach(highest stable id), Pass
//
// Sweep, whenever it is due, gives ranges for one more read of ids whose result goes to Swept.
//
// # Why nothing is lost
//
// An id that Pass makes missing was not committed in the snapshot of a page, or was held back; in either case it stays in the
// ledger until it is taken for publishing or given up. It is given up only by evidence read after that page, hence
// never while a row with it exists, committed or not: one that commits between the committed read and the evidence
// is in the evidence, counts as in flight, and is found by the committed read of the next poll; one that is rolled
// back between them is vacant, rightly. So what can be lost until the next reconcile is an id whose row is inserted more than
// GapTTL after it was missed.
//
// # Crashes
//
// What Changed returns at the time a batch is made describes the ledger without the late ids of that batch and with the gaps
// that it passes. Saved with the position once the batch is acknowledged, never before and never in part, it is
// always true of what the bus holds. A ledger that is restored from an older state only misses more, and repeats no more than the
// batches that were not saved.
type Ledger struct {
	opts LedgerOptions
	// hotFor is the hot time of an id that was never in flight, linger of one that was, ttl of a vacant id in all; in
	// microseconds, as all times of the ledger.
	hotFor, linger, ttl int64

	missing *runs
	flights []flight
	heads   []head
	// position is passed, noticed is what missing tells about, at or above position. judged says that every missing id up
	// to it has been in an evidence, sure that it was in one since the last Notice.
	position, noticed, judged, sure uint64

	clock ledgerClock
	young []uint64
	probe probeState
	sweep sweepState
}

// NewLedger returns an empty ledger at position. To start elsewhere than at the beginning of a table, make it at a position
// some way below the start and Pass the committed ids between: what is uncommitted there is then missing, and so watched.
func NewLedger(opts LedgerOptions, position uint64) (*Ledger, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	l := &Ledger{opts: opts, missing: newRuns(), position: position, noticed: position, judged: position, sure: position}
	l.hotFor, l.linger, l.ttl = opts.HotFor.Microseconds(), opts.HotFor.Microseconds(), opts.GapTTL.Microseconds()
	l.ttl = max(l.ttl, l.hotFor)
	if opts.Order == OrderSegmented {
		l.hotFor = l.ttl
	}
	return l, nil
}

// Position returns how far the shard has been passed.
func (l *Ledger) Position() uint64 { return l.position }

// head says that ids up to id were known at a time.
type head struct {
	id uint64
	at int64
}

// maxHeads bounds how finely the times are told apart at which ids of a backlog were first known.
const maxHeads = 256

// See notes that the table held ids up to maxID at now. Call it with every page before anything else. An id counts as missed
// from when an id at least as high was first seen: it had been handed out by then. So the holes of a backlog grow old together.
func (l *Ledger) See(maxID uint64, now time.Time) {
	t := l.clock.tick(now)
	if n := len(l.heads); maxID <= l.noticed || n > 0 && maxID <= l.heads[n-1].id {
		return
	}
	if len(l.heads) >= maxHeads {
		// Dropping a head makes ids younger, never older.
		for i := range maxHeads / 2 {
			l.heads[i] = l.heads[2*i+1]
		}
		l.heads = l.heads[:maxHeads/2]
	}
	l.heads = append(l.heads, head{id: maxID, at: t})
}

// known returns when an id at least as high as id was first seen, at the latest t.
func (l *Ledger) known(id uint64, t int64) int64 {
	i, _ := slices.BinarySearchFunc(l.heads, id, func(h head, id uint64) int {
		if h.id < id {
			return -1
		}
		return 1
	})
	if i < len(l.heads) {
		return min(t, l.heads[i].at)
	}
	return t
}

// Pass moves the position to through and takes the ids between for missing, save for those that are published, which must be
// ascending. It returns what a full ledger gave up to make room. A through at or below the position changes nothing.
func (l *Ledger) Pass(through uint64, published []uint64, now time.Time) []GivenUp {
	if through <= l.position {
		return nil
	}
	n, _ := slices.BinarySearch(published, through)
	if n < len(published) && published[n] == through {
		n++
	}
	l.notice(through, published[:n], l.clock.tick(now))
	l.position = through
	l.sure = max(l.sure, through)
	return l.shed()
}

// Notice takes the ids behind the position that a page skips for missing, and those that it holds for seen, without moving the
// position. ids are all the ids of the page, ascending. Only GapHold needs it.
func (l *Ledger) Notice(ids []uint64, now time.Time) {
	l.sure = l.position
	if len(ids) > 0 {
		l.notice(ids[len(ids)-1], ids, l.clock.tick(now))
	}
}

func (l *Ledger) notice(through uint64, seen []uint64, t int64) {
	known, _ := slices.BinarySearch(seen, l.noticed)
	if l.noticed > l.position {
		for _, id := range seen[:min(known+1, len(seen))] {
			l.missing.remove(id)
		}
	}
	if through <= l.noticed {
		return
	}
	_, floor, _ := l.missing.newest()
	add := func(first, last uint64) {
		floor = max(floor, l.known(last, t))
		l.missing.add(run{first: first, last: last, missed: floor})
	}
	next, holes := l.noticed+1, false
	for _, id := range seen[known:] {
		if id < next {
			continue
		}
		if id > next {
			add(next, id-1)
			holes = true
		}
		next = id + 1
	}
	if next != 0 && next <= through {
		add(next, through)
		holes = true
	}
	if !holes && l.judged == l.noticed {
		l.judged = through
	}
	l.noticed = through
	passed := 0
	for passed < len(l.heads) && l.heads[passed].id <= through {
		passed++
	}
	l.heads = slices.Delete(l.heads, 0, passed)
}

// Reach returns how far GapHold may publish, at most through: up to the first gap that may still be filled. A gap no longer
// may when its hot time has passed and the evidence that was read since the last Notice shows it vacant.
func (l *Ledger) Reach(through uint64, now time.Time) uint64 {
	t := l.clock.tick(now)
	if through <= l.position {
		return through
	}
	reach := through
	l.missing.ascend(l.position+1, func(r run) bool {
		if r.first > through {
			return false
		}
		if t-r.missed < l.hotFor || r.last > l.sure || l.flown(Range{r.first, r.last}) {
			reach = r.first - 1
			return false
		}
		return true
	})
	return reach
}

// Missing reports whether id is at or below the position and has not been seen: a record with it is a late one.
func (l *Ledger) Missing(id uint64) bool { return id <= l.position && l.missing.has(id) }

// Young notes that the record with this missing id was read and held back, so that it does not count as in flight in the next
// evidence.
func (l *Ledger) Young(id uint64) { l.young = append(l.young, id) }

// Fill takes a missing id for published as a late record, and reports whether it was missing. Call it only when the record
// will be published with the next Changed: there is no way back but a restart.
func (l *Ledger) Fill(id uint64, now time.Time) bool {
	if id > l.position {
		return false
	}
	t := l.clock.tick(now)
	rest, ok := l.missing.remove(id)
	if !ok {
		return false
	}
	if i := l.flightAt(id); i < len(l.flights) && l.flights[i].first <= id {
		// Its transaction has committed; the next evidence tells what is still in flight.
		l.flights[i].flying = false
	}
	if l.opts.Order == OrderSegmented {
		l.follow(id, rest, t)
	}
	return true
}

// ledgerClock turns the owner's steady time into the ledger's, which goes on across restarts and never runs back.
type ledgerClock struct {
	// now is the ledger's time, given the owner's at the same moment, offset their difference.
	now, given, offset int64
	// away is how far the clock may move at the first tick after a restart.
	away     int64
	restored bool
	started  bool
}

func (c *ledgerClock) tick(at time.Time) int64 {
	given := at.UnixMicro()
	if c.restored {
		// Neither a clock that was set nor another server's ages gaps by more than what passed.
		elapsed := min(max(given-c.given, 0), c.away)
		c.offset, c.restored = given-(c.now+elapsed), false
	}
	if t := given - c.offset; !c.started || t > c.now {
		c.now, c.given, c.started = t, given, true
	}
	return c.now
}

// time is the moment t by the owner's clock.
func (c *ledgerClock) time(t int64) time.Time { return time.UnixMicro(t + c.offset).UTC() }
