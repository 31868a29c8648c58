package stream

import (
	"context"
	"fmt"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/form"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// Read is what a batch that the bus has acknowledged brings besides its messages.
type Read struct {
	Shard string
	// Since is the generation of the progress that it was read for (rule 28).
	Since uint64
	// Through is the highest row that the tail has read for it, 0 for none. Passed are those of
	// these rows that are taken care of, ascending: the others between the position and Through
	// become missing.
	Through uint64
	Passed  []uint64
	// Filled are late rows that are taken care of.
	Filled []uint64
	// Cursor is the position of the second cursor, zero where that does not move; Snapshot, where
	// it is not nil, the ids that START=latest still has to record.
	Cursor   source.Cursor
	Snapshot *source.Range
	// At is when the page was read, by the ledger's clock; Now is the host's.
	At, Now time.Time
	// Compared is the number of the demand for a reconcile that the batch grants, 0 for none.
	Compared uint64
	// Parts are those of the rows published last, and of the schema.
	Parts []store.Part
	// Republished is what it has done of a request to publish again, nil for none.
	Republished *Republished
	// Claims are the entities that it changes, nil for a release stream.
	Claims *Claims
	// Found is set to how many of its late rows were missing.
	Found int
}

// Advance takes in what the owner has read for a batch that the bus has acknowledged. It returns
// the change as Flush does, and how many of its late rows were missing.
func (p *Progress) Advance(r *Read) (change store.ShardChange, filled int, err error) {
	if r.Cursor != (source.Cursor{}) {
		p.saved.Cursor = r.Cursor
	}
	if r.Snapshot != nil {
		p.saved.Snapshot = *r.Snapshot
	}
	if p.ledger != nil {
		p.head.rebuild = false
		p.fill(r.At)
		for _, id := range r.Filled {
			if p.ledger.Fill(id, r.At) {
				filled++
			}
		}
		p.moveTo(r.Through, source.RangesAbove(source.RangesOf(r.Passed), p.ledger.Position()), r.At)
	}
	change, err = p.change(r.Now)
	p.low = lowOf(p.ledger, p.saved.ReconcileDue)
	return change, filled, err
}

// NextLow is that of the messages to come (rule 27): below it every row was published and
// acknowledged, not above the floor, or was given up after GAP_TTL. While a reconcile is due, ids
// that are not polled count as not published. It is 0 where ids have no order.
func (p *Progress) NextLow() uint64 { return p.low }

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

// Ledger returns the ledger, nil where ids have no order. Its changes are part of the next change.
func (p *Progress) Ledger() *ledger.Ledger { return p.ledger }

// Position returns how far the shard is published.
func (p *Progress) Position() uint64 {
	if p.ledger == nil {
		return p.saved.Position
	}
	return p.ledger.Position()
}

// State returns what the store is to have of the shard, but for its ids. Until it is Started, First
// and Begin are next (rules 11 and 16). Floor and Since are what each message carries of the shard,
// Low is the highest that was met.
func (p *Progress) State() store.Progress {
	s := p.saved
	s.Position = p.Position()
	return s
}

// SetReconcileDue says whether a reconcile has to follow, with the next change. Set it to false
// once a reconcile has compared the whole table.
func (p *Progress) SetReconcileDue(due bool) {
	if p.saved.ReconcileDue = due; !due {
		p.head.rebuild = false
	}
}

// Demand has a reconcile follow that begins behind the next change.
func (p *Progress) Demand() { p.saved.ReconcileDue, p.demanded = true, true }

// SetSnapshot sets the ids that START=latest still has to record, with the next change.
func (p *Progress) SetSnapshot(r source.Range) { p.saved.Snapshot = r }

// StartSetting is the setting START: where a shard begins of which nothing is known.
type StartSetting struct {
	// Latest begins behind the highest id that is there; After is then of no account.
	Latest bool
	// After is the id behind which to begin; 0 begins with the first row.
	After uint64
}

// seedIDs is how far below the start ids that are not committed are missing.
const seedIDs = 100_000

// StartProgress decides where a shard begins of which neither the store nor the bus holds anything
// (rules 11 and 16). highest is the highest id of the table. Ids at or below the floor are not
// published; a capability shard records them. The error wraps source.ErrUnfit.
func StartProgress(kind event.Kind, start StartSetting, highest uint64) (store.Progress, error) {
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

// SeedRange returns the ids whose committed ones Begin has to be told, empty for a shard that
// begins with the first row. What is not committed there becomes missing, so that it is not lost.
func SeedRange(first store.Progress) source.Range {
	return source.Range{First: first.Position - min(first.Position, seedIDs) + 1, Last: first.Position}
}

// Beginning is how a shard begins.
type Beginning struct {
	// First is what StartProgress has decided, with the second cursor.
	First store.Progress
	// Committed are the committed ids in SeedRange, ascending.
	Committed []uint64
	// Epoch is the epoch of the process.
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
	seed := SeedRange(b.First)
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
// ids are used again. Messages of epochs below epoch do not count any more.
func (p *Progress) Restart(epoch uint64, now time.Time) (store.ShardChange, error) {
	p.saved = store.Progress{Started: true, Since: max(epoch, p.saved.Since), Cursor: p.saved.Cursor}
	p.head = head{epoch: epoch}
	p.empty()
	c, err := p.change(now)
	c.Clear = append(c.Clear, store.Published)
	return c, err
}

// eachNoted calls do for the messages that a former version has put beside the progress of a shard,
// for its owner to take in, and returns the numbers of their parts. The error wraps ErrDamaged or
// is the store's.
func eachNoted(ctx context.Context, s store.Store, key store.Key, do func(row uint64, origin sink.Origin, state *sink.State)) (parts []uint64, err error) {
	for one, err := range s.Parts(ctx, key, store.Noted, 0) {
		if err == nil {
			err = parseNotes(one.Bytes, do)
		}
		if err != nil {
			return nil, fmt.Errorf("notes %d: %w", one.Number, err)
		}
		parts = append(parts, one.Number)
	}
	return parts, nil
}

// parseNotes calls do for the messages in a part of notes, sealed with the version 1. Of each it
// has bits (1 byte), the differences of row and seq from those before (varints) and, where they
// differ, epoch, floor, since and low (unsigned varints). The error wraps ErrDamaged.
func parseNotes(b []byte, do func(row uint64, origin sink.Origin, state *sink.State)) error {
	const (
		version   = 1
		tailBit   = 1
		commonBit = 2
	)
	r, row, state := form.Open(b, version), uint64(0), sink.State{}
	for len(r.Rest) > 0 {
		bits, origin := r.Bytes(1)[0], sink.FromLate
		row += uint64(r.Int())
		state.Seq += uint64(r.Int())
		if bits&commonBit != 0 {
			state.Epoch, state.Floor, state.Since, state.Low = r.Uint(), r.Uint(), r.Uint(), r.Uint()
		}
		if bits&tailBit != 0 {
			origin = sink.FromTail
		}
		if r.Err == nil {
			do(row, origin, &state)
		}
	}
	if r.Err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, r.Err)
	}
	return nil
}
