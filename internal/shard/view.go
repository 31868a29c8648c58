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
	"bridge/sink"
	"bridge/source"
)

// view is what the owner of a capability shard knows about entities: what the checkpoint holds, above it what is in flight,
// and above that the batch being made. It serves the owner; saved is set by the saver.
type view struct {
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

	// sights is what the rows of a page say, in their order; the other fields are scratch.
	sights   []sight
	entities []byte
	asked    []int
	keys     [][]byte
	known    []checkpoint.Known
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

// sight is what one row says about its entity, and what is known about that.
type sight struct {
	row     uint64
	entity  []byte
	state   [16]byte
	deleted bool
	known   checkpoint.Known
}

func newView() *view {
	return &view{ahead: make(map[string]aheadEntry)}
}

// decide says what a row is news of, given what is known about its entity. Invariant 3: the rows are asked about in the order of their
// reads.
func (s *sight) decide() (op event.Op, news bool) {
	switch {
	case s.deleted && s.known.Fate == checkpoint.Gone:
		// Its entity is deleted. That a row comes back is seen where the database was killed, and has forgotten a delete that could be read.
		return event.Deleted, s.known.Row != s.row
	case s.deleted:
		return event.Deleted, s.known.Fate != checkpoint.Tombstone
	case s.known.Fate == checkpoint.Live:
		return event.Modified, s.known.State != s.state
	default:
		return event.Added, true
	}
}

// entry is what is known once the row with this id has been published with the event of this id, or dropped as no news.
func (s *sight) entry(row uint64, id [16]byte) checkpoint.Known {
	known := checkpoint.Known{Row: row, State: s.state, Event: id, Fate: checkpoint.Live}
	if s.deleted {
		known.Fate = checkpoint.Tombstone
	}
	return known
}

// sight fills s.view.sights for records.
func (s *Shard) sight(ctx context.Context, records []source.Row) error {
	v := s.view
	v.sights, v.entities = v.sights[:0], v.entities[:0]
	for _, record := range records {
		seen, err := s.see(record)
		if err != nil {
			return err
		}
		start := len(v.entities)
		v.entities = append(v.entities, seen.Entity...)
		v.sights = append(v.sights, sight{row: record.ID, entity: v.entities[start:], state: seen.Sum, deleted: seen.Deleted})
	}
	// The arena may have moved while it grew.
	start := 0
	for i := range v.sights {
		end := start + len(v.sights[i].entity)
		v.sights[i].entity = v.entities[start:end:end]
		start = end
	}
	return s.know(ctx)
}

// see returns what a row says, if a view can hold it.
func (s *Shard) see(record source.Row) (event.Digest, error) {
	seen, err := s.opts.Encoder.Digest(record)
	if err == nil && len(seen.Entity) > checkpoint.MaxEntity {
		err = fmt.Errorf("%w: the key of row %d of %s takes %d bytes, a view holds keys of up to %d: name other columns with KEY",
			source.ErrUnfit, record.ID, s.opts.Name, len(seen.Entity), checkpoint.MaxEntity)
	}
	return seen, err
}

// know fills in what is known about the entities of s.view.sights.
func (s *Shard) know(ctx context.Context) error {
	v := s.view
	v.forget()
	v.asked = v.asked[:0]
	for i := range v.sights {
		one := &v.sights[i]
		if entry, ok := v.ahead[string(one.entity)]; ok {
			one.known = *entry.known
		} else {
			v.asked = append(v.asked, i)
		}
	}
	if len(v.asked) == 0 {
		return nil
	}
	slices.SortFunc(v.asked, func(a, b int) int { return bytes.Compare(v.sights[a].entity, v.sights[b].entity) })
	v.keys = v.keys[:0]
	for _, i := range v.asked {
		v.keys = append(v.keys, v.sights[i].entity)
	}
	err := s.retrier.readStore(ctx, func() (err error) {
		v.known, err = s.opts.Store.Lookup(ctx, s.key(), v.keys, v.known[:0])
		return err
	})
	if err != nil {
		return err
	}
	for n, i := range v.asked {
		v.sights[i].known = v.known[n]
	}
	return nil
}

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

// makeRoom makes room in b for what the sights are news of.
func (v *view) makeRoom(s *Shard, b *batch) {
	events, bytes := 0, 0
	for i := range v.sights {
		if _, news := v.sights[i].decide(); news {
			events++
			bytes += len(v.sights[i].entity)
		}
	}
	b.makeRoom(s, events)
	b.changes = slices.Grow(b.changes, events)
	if cap(b.keys)-len(b.keys) < bytes {
		b.keys = make([]byte, 0, bytes)
	}
}

// change notes a new entry of the view with the batch that publishes it.
func (v *view) change(b *batch, entity []byte, known checkpoint.Known) {
	entity = b.keep(entity)
	b.changes = append(b.changes, checkpoint.Change{Entity: entity, Known: known})
	name, seq := v.names.Of(entity), v.seq+1
	if former, ok := v.ahead[name]; ok && former.seq != seq {
		v.replaced = append(v.replaced, replacedEntry{name, former})
	}
	v.ahead[name] = aheadEntry{&b.changes[len(b.changes)-1].Known, seq}
}

// hand notes that b, the batch being made, is in flight.
func (v *view) hand(b *batch) {
	if len(b.changes) == 0 {
		return
	}
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

// encodeStates appends to b the events of those records of page that say something new about their entities, and what the
// view is to hold. done is told the id of every record that was taken care of, in their order.
func (s *Shard) encodeStates(ctx context.Context, b *batch, page *page, records []source.Row, origin sink.Origin, done func(id uint64)) error {
	if err := s.sight(ctx, records); err != nil {
		return err
	}
	v := s.view
	v.makeRoom(s, b)
	for i, record := range records {
		one := &v.sights[i]
		op, news := one.decide()
		if news && op == event.Modified && s.confirms(one) {
			news = false
		}
		if !news {
			if one.known.Row != record.ID || one.known.State != one.state {
				// A REPLACE with the same state: the row has another id.
				v.change(b, one.entity, one.entry(record.ID, one.known.Event))
			}
			done(record.ID)
			continue
		}
		if origin == sink.FromTail || origin == sink.FromLate || op == event.Added {
			b.born(page, record)
		} else {
			b.oldest = earlier(b.oldest, page.changedAt(record))
		}
		row := event.Row{Row: record, State: one.state, Read: page.Now, Predecessor: event.FormatID(one.known.Event)}
		if op == event.Modified {
			row.Op = op
		}
		e, err := b.add(s, row, origin)
		if err != nil {
			return err
		}
		v.change(b, one.entity, one.entry(record.ID, e.UUID))
		b.count(op)
		done(record.ID)
	}
	return nil
}
