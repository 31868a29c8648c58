package view

import (
	"context"

	"bridge/checkpoint/store"
)

// Move is an entity that the owner of a shard is to publish, with permission to have it from
// another shard or row (rule 29). It ends with the batch that has the permission, or by
// Movers.Return.
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
	v.lock()
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

// reserved is an entity that is reserved, and its entry.
type reserved struct {
	*mover
	entry  store.Entry
	number uint64
}

// reserve appends to dst those of list that nothing claims: until endMove, rows of them nominate.
// Movers is told when the others are free.
func (v *View) reserve(ctx context.Context, list []*mover, dst []reserved) ([]reserved, error) {
	l := lookups.Get().(*lookup)
	defer lookups.Put(l)
	l.begin(len(list))
	for _, m := range list {
		l.asks = append(l.asks, store.Ask{Entity: []byte(m.name)})
	}
	if err := l.run(ctx, v); err != nil {
		return dst, err
	}
	v.lock()
	defer v.mu.Unlock()
	if err := l.repeat(ctx, v); err != nil {
		return dst, err
	}
	for i, m := range list {
		r := v.records[m.name]
		if r != nil {
			r.waited = true
			continue
		}
		v.numbers++
		e := v.registrations.renewed(l.entries[i])
		r = v.newRecord(l.key(i), l.entries[i])
		r.move = v.numbers
		dst = append(dst, reserved{m, e, v.numbers})
	}
	return dst, nil
}

// unreserve ends the reservation of a move. repeat says that the entity is to be read again.
func (v *View) unreserve(name string, number uint64, repeat bool) {
	v.lock()
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
	if v.movers != nil {
		v.movers.done(name, repeat, confirm)
	}
}

// handle remembers the rows of a key that lost against the winner.
func (v *View) handle(one *reserved, found []Found, winner int) {
	v.lock()
	defer v.mu.Unlock()
	entity := v.hash([]byte(one.name))
	for i := range found {
		if i != winner {
			v.handled.add(loser{entity, found[winner].version(), found[i].version()}.hash(v.seed))
		}
	}
}

// assign notes who publishes a move, of which row; nil for an absence.
func (v *View) assign(move *Move, f *Found) {
	v.lock()
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
	v.lock()
	defer v.mu.Unlock()
	for len(v.begun[shard]) > 0 {
		v.end(v.begun[shard][0], false)
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
