package progress

import (
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// Batch is what the owner of a shard hands over, as far as the progress changes with it.
type Batch struct {
	// Through is the highest row that the tail has read for it, 0 for none. Passed are those of
	// these rows that are taken care of, ascending: the others between the position and Through
	// become missing.
	Through uint64
	Passed  []uint64
	// Filled are late rows that are taken care of.
	Filled []uint64
	// At is when the page was read, by the ledger's clock; Now is the host's.
	At, Now time.Time
}

// Change is what a batch changes, to be applied when it is acknowledged.
type Change struct {
	store.ShardChange
	// Low is that of its messages (rule 27): below it every row was published and acknowledged
	// before the batch, not above the floor, or was given up after GAP_TTL. While a reconcile is
	// due, ids that are not polled count as not published. It is 0 where ids have no order.
	Low uint64
	// Filled is how many of the batch's late rows were missing.
	Filled int
}

// Advance takes in a batch that is about to be handed over, and all that was noted before. The
// change of the call before was applied. After an error the progress is not used again.
func (p *Progress) Advance(b Batch) (Change, error) {
	if p.ledger == nil {
		c, err := p.change(b.Now)
		return Change{ShardChange: c}, err
	}
	p.head.rebuild = false
	p.trim()
	p.Fill(b.At)
	filled := 0
	for _, id := range b.Filled {
		if p.ledger.Fill(id, b.At) {
			filled++
		}
	}
	if p.ahead.AnyThrough(b.Through) {
		p.rise(b.Through, source.RangesAbove(source.RangesOf(b.Passed), p.ledger.Position()), b.At)
	} else {
		p.ledger.Advance(b.Through, b.Passed, b.At)
	}
	c, err := p.change(b.Now)
	change := Change{ShardChange: c, Low: p.low, Filled: filled}
	p.low = lowOf(p.ledger, p.saved.ReconcileDue)
	return change, err
}

// trim frees memory of parts that the store has.
func (p *Progress) trim() {
	p.ledger.Saved()
	p.ahead.Trim()
}

// lowOf returns the id below which nothing is left to publish, while a reconcile is due or not.
func lowOf(l *ledger.Ledger, due bool) uint64 {
	if l == nil {
		return 0
	}
	low := l.Low()
	if due {
		l.Unpublished(func(r source.Range) bool {
			low = min(low, r.First)
			return false
		})
	}
	return low
}

// Ahead reports whether the row with this id, above the position, is on the bus already: the tail
// counts it among Passed and does not publish it (rule 15).
func (p *Progress) Ahead(id uint64) bool { return p.ahead != nil && p.ahead.Has(id) }

// Ledger returns the ledger, nil where ids have no order. Its changes are part of the next Advance.
func (p *Progress) Ledger() *ledger.Ledger { return p.ledger }

// Position returns how far the shard is published or handed over.
func (p *Progress) Position() uint64 {
	if p.ledger == nil {
		return p.saved.Position
	}
	return p.ledger.Position()
}

// Started reports whether the decision about START was made, or the bus holds something of the
// shard that counts. If not, First and Begin are next (rules 11 and 16).
func (p *Progress) Started() bool { return p.saved.Started }

// Floor and Since return what each message carries of the shard, Low the highest low that was met.
func (p *Progress) Floor() uint64 { return p.saved.Floor }

// Since returns the epoch below which messages do not count.
func (p *Progress) Since() uint64 { return p.saved.Since }

// Low returns the highest low that was met.
func (p *Progress) Low() uint64 { return p.saved.Low }

// ReconcileDue reports whether a reconcile has to follow at once.
func (p *Progress) ReconcileDue() bool { return p.saved.ReconcileDue }

// SetReconcileDue says whether a reconcile has to follow, with the next change. Set it to false
// once a reconcile has compared the whole table.
func (p *Progress) SetReconcileDue(due bool) {
	if p.saved.ReconcileDue = due; !due {
		p.head.rebuild = false
	}
}

// Cursor returns the position of the second cursor.
func (p *Progress) Cursor() source.Cursor { return p.saved.Cursor }

// SetCursor sets it with the next change.
func (p *Progress) SetCursor(c source.Cursor) { p.saved.Cursor = c }

// Snapshot returns the ids that START=latest still has to record.
func (p *Progress) Snapshot() source.Range { return p.saved.Snapshot }

// SetSnapshot sets them with the next change.
func (p *Progress) SetSnapshot(r source.Range) { p.saved.Snapshot = r }

// Start is the setting START: where a shard begins of which nothing is known.
type Start struct {
	// Latest begins behind the highest id that is there; After is then of no account.
	Latest bool
	// After is the id behind which to begin; 0 begins with the first row.
	After uint64
}

// seedIDs is how far below the start ids that are not committed are missing.
const seedIDs = 100_000

// First decides where a shard begins of which neither the store nor the bus holds anything (rules
// 11 and 16). highest is the highest id of the table. Ids at or below the floor are not published;
// a capability shard records them. The error wraps source.ErrUnfit.
func First(kind event.Kind, start Start, highest uint64) (store.Progress, error) {
	first := store.Progress{Started: true, Position: start.After}
	switch {
	case start.Latest:
		first.Position = highest
	case highest < start.After:
		return store.Progress{}, option.Errorf("%w: %s is %d, the highest id is %d: correct %s, or wait until the table has come that far",
			source.ErrUnfit, option.Start, start.After, highest, option.Start)
	}
	first.Floor = first.Position
	if kind == event.Capability && first.Position > 0 {
		first.Snapshot = source.Range{First: 1, Last: first.Position}
	}
	return first, nil
}

// Seed returns the ids whose committed ones Begin has to be told, empty for a shard that begins
// with the first row. What is not committed there becomes missing, so that it is not lost.
func Seed(first store.Progress) source.Range {
	return source.Range{First: first.Position - min(first.Position, seedIDs) + 1, Last: first.Position}
}

// Beginning is how a shard begins.
type Beginning struct {
	// First is what First has decided, with the second cursor.
	First store.Progress
	// Committed are the committed ids in Seed, ascending.
	Committed []uint64
	// Epoch is that of the process.
	Epoch uint64
	// At is when Committed was read, by the ledger's clock; Now is the host's.
	At, Now time.Time
}

// Begin has a shard begin that was not Started, and returns the change, which must be synced before
// the first row is published.
func (p *Progress) Begin(b Beginning) (store.ShardChange, error) {
	b.First.Since = p.saved.Since
	p.saved, p.head = b.First, head{epoch: b.Epoch}
	if p.ledger == nil {
		return p.change(b.Now)
	}
	seed := Seed(b.First)
	l, err := ledger.New(p.opts, seed.First-1)
	if err != nil {
		return store.ShardChange{}, err
	}
	l.Advance(b.First.Position, b.Committed, b.At)
	p.empty()
	p.ledger = l
	p.low = lowOf(p.ledger, p.saved.ReconcileDue)
	return p.change(b.Now)
}

// Restart has a shard go on from the first row, while its view stays: a person has agreed that its
// ids are used again. Messages of epochs below epoch do not count any more. The change must be
// applied before the next call of any method.
func (p *Progress) Restart(epoch uint64, now time.Time) (store.ShardChange, error) {
	p.saved = store.Progress{Started: true, Since: max(epoch, p.saved.Since), Cursor: p.saved.Cursor}
	p.head = head{epoch: epoch}
	p.empty()
	c, err := p.change(now)
	c.Clear = append(c.Clear, store.Published)
	return c, err
}
