package shard

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/internal/texts"
	"bridge/source"
)

// view decides what the rows of a capability shard are news of. It knows what the store holds of
// entities, above it what is in flight, and above that the batch being made. It serves the owner;
// saved is set by the saver.
type view struct {
	store   checkpoint.Store
	key     checkpoint.Key
	encoder *event.Encoder
	retrier *retrier

	// ahead holds the newest entries of the batch being made, and of those that were handed over and are not known to be saved.
	ahead map[string]aheadEntry
	// names holds its keys.
	names texts.Texts
	// replaced holds the entries whose place the batch being made has taken: they hold again if it is dropped.
	replaced []replacedEntry
	// queue holds the batches that were handed over, seq is the number of the last one.
	queue []aheadBatch
	seq   uint64
	saved atomic.Uint64

	// decisions are those about the rows of a page; the other fields are scratch.
	decisions []decision
	entities  []byte
	wanted    []int
	keys      [][]byte
	known     []checkpoint.Known
}

// aheadEntry is what is known once the batch of this number is saved.
type aheadEntry struct {
	known *checkpoint.Known
	seq   uint64
}

type replacedEntry struct {
	entity string
	aheadEntry
}

// aheadBatch is a batch that was handed over, with what it changes.
type aheadBatch struct {
	seq     uint64
	changes []checkpoint.Change
}

// foreseen is the number of entries that no batch of this process saves.
const foreseen = 1<<64 - 1

// decision is what one row says of its entity, and what that is news of. Of an entity without a row
// it has no more than the entity and what is known of it.
type decision struct {
	row     uint64
	entity  []byte
	digest  [16]byte
	deleted bool
	known   checkpoint.Known
	// op says what happened to the entity, news whether that is to be published.
	op   event.Op
	news bool
}

// newView returns a view that knows what the store knows, nil for a release shard.
func newView(opts *Options, r *retrier) *view {
	if opts.Kind != event.Capability {
		return nil
	}
	return &view{store: opts.Store, key: opts.key(), encoder: opts.Encoder, retrier: r, ahead: make(map[string]aheadEntry)}
}

// decide says what a row is news of, by what is known of its entity.
func (d *decision) decide() (op event.Op, news bool) {
	switch {
	case d.deleted && d.known.Fate == checkpoint.Gone:
		// Its entity is deleted. That a row comes back is seen where the database was killed, and has forgotten a delete that could be read.
		return event.Deleted, d.known.Row != d.row
	case d.deleted:
		return event.Deleted, d.known.Fate != checkpoint.Tombstone
	case d.known.Fate == checkpoint.Live:
		return event.Modified, d.known.State != d.digest
	default:
		return event.Added, true
	}
}

// entry is what is known once the row with this id has been published with the event of this id, or dropped as no newd.
func (d *decision) entry(row uint64, id [16]byte) checkpoint.Known {
	known := checkpoint.Known{Row: row, State: d.digest, Event: id, Fate: checkpoint.Live}
	if d.deleted {
		known.Fate = checkpoint.Tombstone
	}
	return known
}

// decide returns what rows say, behind b, the batch being made. It is good until the next call.
// Invariant 3: rows are decided in the order of their reads.
func (v *view) decide(ctx context.Context, b *batch, rows []source.Row) ([]decision, error) {
	v.decisions, v.entities = v.decisions[:0], v.entities[:0]
	for _, row := range rows {
		digest, err := v.digest(row)
		if err != nil {
			return nil, err
		}
		start := len(v.entities)
		v.entities = append(v.entities, digest.Entity...)
		v.decisions = append(v.decisions, decision{row: row.ID, entity: v.entities[start:], digest: digest.Sum, deleted: digest.Deleted})
	}
	// The arena may have moved while it grew.
	start := 0
	for i := range v.decisions {
		end := start + len(v.decisions[i].entity)
		v.decisions[i].entity = v.entities[start:end:end]
		start = end
	}
	if err := v.lookup(ctx, b); err != nil {
		return nil, err
	}
	for i := range v.decisions {
		one := &v.decisions[i]
		one.op, one.news = one.decide()
		if one.news && one.op == event.Modified && v.confirms(one) {
			one.news = false
		}
	}
	return v.decisions, nil
}

// absent returns what is known of entities without a row, behind b, the batch being made. It is
// good until the next call.
func (v *view) absent(ctx context.Context, b *batch, entities [][]byte) ([]decision, error) {
	v.decisions = v.decisions[:0]
	for _, entity := range entities {
		v.decisions = append(v.decisions, decision{entity: entity})
	}
	return v.decisions, v.lookup(ctx, b)
}

// byRow returns the entity that was last published with a row, nil for none.
func (v *view) byRow(ctx context.Context, row uint64) (entity []byte, err error) {
	var found []checkpoint.Entity
	err = v.retrier.readStore(ctx, func() (err error) {
		found, err = v.store.ByRow(ctx, v.key, row-1, 1, found[:0])
		return err
	})
	for _, one := range found {
		if one.Row == row {
			entity = one.Entity
		}
	}
	return entity, err
}

// digest returns the entity and the digest of a row, if a view can hold it.
func (v *view) digest(row source.Row) (event.Digest, error) {
	digest, err := v.encoder.Digest(row)
	if err == nil && len(digest.Entity) > checkpoint.MaxEntity {
		err = fmt.Errorf("%w: the key of row %d of %s takes %d bytes, a view holds keys of up to %d: name other columns with KEY",
			source.ErrUnfit, row.ID, v.key.Shard, len(digest.Entity), checkpoint.MaxEntity)
	}
	return digest, err
}

// lookup fills in what is known of the entities of v.decisions, behind b.
func (v *view) lookup(ctx context.Context, b *batch) error {
	v.note(b)
	v.forget()
	v.wanted = v.wanted[:0]
	for i := range v.decisions {
		one := &v.decisions[i]
		if entry, ok := v.ahead[string(one.entity)]; ok {
			one.known = *entry.known
		} else {
			v.wanted = append(v.wanted, i)
		}
	}
	if len(v.wanted) == 0 {
		return nil
	}
	slices.SortFunc(v.wanted, func(a, b int) int { return bytes.Compare(v.decisions[a].entity, v.decisions[b].entity) })
	v.keys = v.keys[:0]
	for _, i := range v.wanted {
		v.keys = append(v.keys, v.decisions[i].entity)
	}
	err := v.retrier.readStore(ctx, func() (err error) {
		v.known, err = v.store.Lookup(ctx, v.key, v.keys, v.known[:0])
		return err
	})
	if err != nil {
		return err
	}
	for n, i := range v.wanted {
		v.decisions[i].known = v.known[n]
	}
	return nil
}

// durable notes that the batch with a number is durable. Others than the owner may call it.
func (v *view) durable(seq uint64) { v.saved.Store(seq) }

// forget drops what is saved by now: the checkpoint shows it.
func (v *view) forget() {
	saved, n := v.saved.Load(), 0
	for ; n < len(v.queue) && v.queue[n].seq <= saved; n++ {
		v.remove(v.queue[n].seq, v.queue[n].changes)
	}
	v.queue = slices.Delete(v.queue, 0, n)
}

// remove removes the entries that the changes of batch seq have made, but for those that a newer batch has replaced.
func (v *view) remove(seq uint64, changes []checkpoint.Change) {
	for i := range changes {
		entity := changes[i].Entity
		if v.ahead[string(entity)].seq == seq {
			delete(v.ahead, string(entity))
		}
	}
}

// note takes in the changes of b, the batch being made, that are not in the view yet.
func (v *view) note(b *batch) {
	seq := v.seq + 1
	for ; b.noted < len(b.changes); b.noted++ {
		change := &b.changes[b.noted]
		name := v.names.Of(change.Entity)
		if former, ok := v.ahead[name]; ok && former.seq != seq {
			v.replaced = append(v.replaced, replacedEntry{name, former})
		}
		v.ahead[name] = aheadEntry{&change.Known, seq}
	}
}

// hand notes that b, the batch being made, is in flight.
func (v *view) hand(b *batch) {
	if len(b.changes) == 0 {
		return
	}
	v.note(b)
	v.seq++
	b.seq = v.seq
	v.queue = append(v.queue, aheadBatch{b.seq, b.changes})
	v.replaced = nil
}

// drop takes back what b, the batch being made, has changed.
func (v *view) drop(b *batch) {
	v.remove(v.seq+1, b.changes)
	for _, former := range v.replaced {
		// What is saved by now may be forgotten: the checkpoint shows it.
		if former.seq > v.saved.Load() {
			v.ahead[former.entity] = former.aheadEntry
		}
	}
	v.replaced = nil
}

// foresee takes for known what the checkpoint will hold.
func (v *view) foresee(changes []checkpoint.Change) {
	for i := range changes {
		c := &changes[i]
		v.ahead[string(c.Entity)] = aheadEntry{&c.Known, foreseen}
	}
}

// confirms reports whether the last event of an entity, whose state was not told when it was caught up on, says what the row says.
func (v *view) confirms(one *decision) bool {
	told := event.Told{ID: one.known.Event, Entity: one.entity, Row: one.known.Row, Predecessor: one.known.State}
	return isPredecessor(told.Predecessor) && v.encoder.Says(told, one.digest)
}

// isPredecessor reports whether b can be a meta.id, or stands for none. Most states cannot.
func isPredecessor(b [16]byte) bool {
	return b == [16]byte{} || b[6]>>4 == 5 && b[8]>>6 == 2
}
