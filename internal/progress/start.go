package progress

import (
	"time"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/option"
	"bridge/source"
	"bridge/source/ledger"
)

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
	c, err := p.change(b.Now)
	p.applied.Store(p.number())
	p.nextLow = lowOf(p.ledger, p.saved.ReconcileDue)
	return c, err
}

// Restart has a shard go on from the first row, while its view stays: a person has agreed that its
// ids are used again. Messages of epochs below epoch do not count any more. The change must be
// applied before the next call of any method; no change of Advance may be waiting.
func (p *Progress) Restart(epoch uint64, now time.Time) (store.ShardChange, error) {
	p.saved = store.Progress{Started: true, Since: max(epoch, p.saved.Since), Cursor: p.saved.Cursor}
	p.head = head{epoch: epoch}
	p.empty()
	c, err := p.change(now)
	c.Clear = append(c.Clear, store.Published)
	if p.ledger != nil {
		p.applied.Store(p.number())
	}
	return c, err
}
