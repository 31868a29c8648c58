package stream

import (
	"cmp"
	"context"
	"hash/maphash"
	"time"

	"example.org/bridge/checkpoint/store"
)

// Move is an entity that the owner of a shard is to publish, with permission to have it from
// another shard or row (rule 29). It ends with the batch that has the permission, or where none
// takes it.
type Move struct {
	// Shard publishes Entity.
	Shard  string
	Entity []byte
	// Row is the row that has the entity. Where Absent, no table has the key.
	Row    uint64
	Absent bool

	name   string
	number uint64
}

// Permit gives c the permission for moves of its shard. Then read their keys in the table of the
// shard, and have what is found decided; of a move that is Absent and has no row, its absence. An
// entity that is not decided about goes back to Movers when c ends.
func (c *Claims) Permit(moves []Move) (given []Move) {
	v := c.view
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range moves {
		r := v.records[moves[i].name]
		if r == nil || r.move != moves[i].number || r.permitted != nil {
			// It has ended.
			continue
		}
		r.permitted, r.decided = c, false
		c.moves = append(c.moves, r)
		given = append(given, moves[i])
	}
	return given
}

type reserved struct {
	*mover
	entry  store.Entry
	number uint64
}

// reserve returns those of list that nothing claims: until endMove, rows of them nominate. The
// others are queued when they are free.
func (m *Movers) reserve(ctx context.Context, list []*mover) (held []reserved, err error) {
	v, l := m.view, prepared.Get().(*Prepared)
	defer prepared.Put(l)
	l.begin(len(list))
	for _, one := range list {
		l.asks = append(l.asks, store.Ask{Entity: []byte(one.name)})
	}
	if err = l.run(ctx, v); err == nil {
		err = l.lock(ctx, v)
	}
	if err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, one := range list {
			m.pause(one)
		}
		return nil, err
	}
	defer v.mu.Unlock()
	for i, one := range list {
		r := v.records[one.name]
		if r != nil {
			r.waited = true
			continue
		}
		m.moves++
		r = v.newRecord(l.key(i), l.entries[i])
		r.move, one.state = m.moves, isMoving
		held = append(held, reserved{one, v.renewed(l.entries[i]), m.moves})
	}
	return held, nil
}

func (m *Movers) unreserve(name string, number uint64, repeat bool) {
	v := m.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.records[name]; r != nil && r.move == number && r.permitted == nil {
		v.endMove(r, repeat, false)
	}
}

// endMove ends the reservation of r. confirm says that a delete was published: rule 29 has the
// key read once more.
func (v *View) endMove(r *record, repeat, confirm bool) {
	name := r.name
	r.move, r.permitted, r.decided, r.deletes, r.winner = 0, nil, false, false, version{}
	v.free(r)
	v.movers.ended(name, repeat, confirm)
}

// handle remembers the rows of a key that lost against the winner.
func (m *Movers) handle(one *reserved, found []Found, winner int) {
	v := m.view
	v.mu.Lock()
	defer v.mu.Unlock()
	entity := v.hash([]byte(one.name))
	for i := range found {
		if len(v.handled) >= mostHandled {
			clear(v.handled)
		}
		if i != winner {
			v.handled[maphash.Comparable(v.seed, duplicateRow{entity, found[winner].version(), found[i].version()})] = struct{}{}
		}
	}
}

// assign notes who publishes a move, of which row; nil for an absence.
func (m *Movers) assign(move *Move, f *Found) {
	v := m.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.records[move.name]; r != nil && r.move == move.number {
		r.shard, r.deletes = move.Shard, move.Absent
		if f != nil {
			r.winner = f.version()
		}
	}
}

// Stop releases all claims of a shard whose loops have ended, and gives the moves back that it
// has.
func (v *View) Stop(shard string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.begun[shard]; c != nil {
		v.end(c, false)
	}
	var moves []*record
	for _, r := range v.records {
		if r.move > 0 && r.shard == shard && r.permitted == nil && r.top == nil {
			moves = append(moves, r)
		}
	}
	for _, r := range moves {
		v.endMove(r, true, false)
	}
}

// Found is a row that a table of the stream has of a key.
type Found struct {
	Shard  string
	Row    uint64
	Digest [16]byte
	// Deleted and Silent are as in Row.
	Deleted, Silent bool
	// Modified is the row's MODIFIED; zero where it has none.
	Modified time.Time
}

type outcome uint8

const (
	// nothing: the entity's last message says the same.
	nothing outcome = iota
	// publish: the shard of the row that was chosen publishes.
	publish
	// absent: no table has the key, and that was published of none.
	absent
	// again: one more read is needed to prove that.
	again
)

// choose decides rule 29 for an entity with this entry, of which the tables have the rows found.
// row is the index of the row that has the entity, where there is one. proved says that what was
// not found is not there: all tables were read in one snapshot, or for the second time without a
// row.
//
// Of two rows of a key the one with the later MODIFIED has the entity; else one that is not
// deleted, one in the shard of the entry, and the one with the higher id: so nothing alternates.
func choose(e *store.Entry, found []Found, proved bool) (what outcome, row int) {
	if len(found) == 0 {
		switch {
		case e.State == store.Unknown || e.State == store.Absent && !e.Disputed:
			return nothing, -1
		case !proved:
			return again, -1
		}
		return absent, -1
	}
	for i := range found[1:] {
		if found[i+1].beats(&found[row], e.Shard) {
			row = i + 1
		}
	}
	f := &found[row]
	_, news, moves := verdict(e, f.Shard, &Row{ID: f.Row, Digest: f.Digest, Deleted: f.Deleted, Silent: f.Silent})
	if news || moves {
		return publish, row
	}
	return nothing, row
}

// beats reports whether f has the entity rather than o. shard is that of the entry.
func (f *Found) beats(o *Found, shard string) bool {
	if !f.Modified.IsZero() && !o.Modified.IsZero() && !f.Modified.Equal(o.Modified) {
		return f.Modified.After(o.Modified)
	}
	switch {
	case f.Deleted != o.Deleted:
		return o.Deleted
	case (f.Shard == shard) != (o.Shard == shard):
		return f.Shard == shard
	case f.Shard == o.Shard:
		return f.Row > o.Row
	}
	return cmp.Less(f.Shard, o.Shard)
}

type version struct {
	shard   string
	row     uint64
	digest  [16]byte
	deleted bool
}

func (f *Found) version() version {
	return Row{ID: f.Row, Digest: f.Digest, Deleted: f.Deleted}.version(f.Shard)
}

// version returns a row of a shard. Of one that is deleted the digest does not matter.
func (d Row) version(shard string) version {
	if d.Deleted {
		d.Digest = [16]byte{}
	}
	return version{shard, d.ID, d.Digest, d.Deleted}
}

// duplicateRow is a row whose key another row has (rule 29): nothing is nominated again while both
// stay the same.
type duplicateRow struct {
	entity      uint64
	winner, row version
}

// mostHandled bounds the hashes of duplicate rows that a view remembers, about 20 bytes each. One
// that is forgotten is nominated once more, and loses again.
const mostHandled = 1 << 15
