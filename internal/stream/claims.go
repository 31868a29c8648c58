package stream

import (
	"context"
	"time"

	"example.org/bridge/checkpoint/store"
)

// Claims are the entities that one batch of a shard changes. They serve one goroutine at a time,
// and end with Apply or Release; then they must not be used any more, and only then the shard may
// begin others.
type Claims struct {
	// Floor is the floor of the shard: a row with an id at or below it, and without an entry, is
	// recorded and not published (rule 16). 0: none. Set it before Decide; to 0 for late rows
	// that were not committed when the shard began.
	Floor uint64
	// Again has what is no news of an entity that lives be published again. Set it before Decide.
	Again bool
	// Afresh has rows that have lost against another one of their key be nominated again: that one
	// may be gone, or be older now. Set it before Decide.
	Afresh bool
	// Moved says that a row takes over an entity without an event.
	Moved bool
	// Time is when the batch is published, as its messages say. An absence is dated by it.
	Time time.Time

	view  *View
	shard string
	// items are the claims in the order of the decisions; room is memory for further ones.
	items []*item
	room  []item
	// moves are the records of the moves that the batch has the permission for.
	moves  []*record
	lookup Prepared
}

type item struct {
	record *record
	// behind is the claim with an event that this one was decided behind, where that had none yet.
	behind *item
	// entry is as it will be. A quiet one has no message, and was made of one in the state was.
	entry     store.Entry
	was       store.EntryState
	quiet     bool
	published bool
}

type record struct {
	// name is the stored name; shard has the claims or, without any, the move.
	name, shard string
	// base is the entry in the store; next, if pending, the entry after the commit under way.
	base, next store.Entry
	pending    bool
	// top is the newest claim, nil where the entity is only reserved.
	top *item
	// waited says that Movers waits until the entity is free.
	waited bool
	// move is the number of the reservation, 0 for none; permitted has its permission, and
	// decided whether a decision was made with it. deletes says that it is an absence.
	move      uint64
	permitted *Claims
	decided   bool
	deletes   bool
	// winner is the row that the move is about.
	winner version
}

// Begin begins the claims of a batch of a shard. It panics where those of another one have not
// ended.
func (v *View) Begin(shard string) *Claims {
	v.mu.Lock()
	defer v.mu.Unlock()
	var c *Claims
	if n := len(v.freeClaims); n > 0 {
		c, v.freeClaims = v.freeClaims[n-1], v.freeClaims[:n-1]
	} else {
		c = new(Claims)
	}
	if v.begun[shard] != nil {
		panic("view: a shard has one batch at a time")
	}
	c.view, c.shard = v, shard
	v.begun[shard] = c
	return c
}

// Empty reports whether nothing would change if the batch were acknowledged.
func (c *Claims) Empty() bool { return len(c.items) == 0 }

// Len returns how many claims there are, about 200 bytes each.
func (c *Claims) Len() int { return len(c.items) }

// Publish says that the batch has a message about d, which must be news, with this event id.
func (d *Decision) Publish(event [16]byte) {
	d.item.entry.Event, d.item.published = event, true
}

// Dispute claims those of entities whose last event is the one that last says, so that the next
// decision about them publishes. An entity that is claimed elsewhere is left out. With an error
// nothing is claimed.
func (c *Claims) Dispute(ctx context.Context, entities [][]byte, last map[string][16]byte) error {
	v := c.view
	if err := c.lookup.findEntities(ctx, v, c.shard, entities); err != nil {
		return err
	}
	if err := c.lookup.lock(ctx, v); err != nil {
		return err
	}
	defer v.mu.Unlock()
	for i, entity := range entities {
		d := Decision{Row: Row{Entity: entity}}
		r, free := v.entry(c, &d, i)
		if !free || d.Known.State == store.Unknown || d.Known.Event != last[string(entity)] {
			continue
		}
		if r == nil {
			r = v.newRecord(c.lookup.key(i), d.Known)
		}
		entry := d.Known
		entry.Disputed = true
		v.claim(c, r, &d, entry)
	}
	return nil
}

// Release ends the claims of a batch that was dropped, or whose outcome is unknown.
func (v *View) Release(c *Claims) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.end(c, false)
}

func (v *View) newRecord(stored []byte, base store.Entry) *record {
	var r *record
	if n := len(v.freeRecords); n > 0 {
		r, v.freeRecords = v.freeRecords[n-1], v.freeRecords[:n-1]
	} else {
		r = new(record)
	}
	r.name, r.base = v.names.Of(stored), base
	v.records[r.name] = r
	return r
}

func (v *View) claim(c *Claims, r *record, d *Decision, entry store.Entry) {
	if len(c.room) == 0 {
		c.room = make([]item, min(2*len(c.items)+1, 64))
	}
	one := &c.room[0]
	c.items, c.room = append(c.items, one), c.room[1:]
	*one = item{record: r, behind: d.behind, entry: entry, was: d.Known.State, quiet: !d.News}
	r.top, r.shard = one, c.shard
	d.item = one
}

func (v *View) end(c *Claims, acknowledged bool) {
	for _, one := range c.items {
		r := one.record
		r.top = nil
		v.free(r)
	}
	for _, r := range c.moves {
		done := r.decided && c.finished(r, acknowledged)
		v.endMove(r, !done, done && r.deletes)
	}
	delete(v.begun, c.shard)
	clear(c.items)
	clear(c.moves)
	c.lookup.clear()
	*c = Claims{items: c.items[:0], room: c.room, moves: c.moves[:0], lookup: c.lookup}
	if len(v.freeClaims) < 16 {
		v.freeClaims = append(v.freeClaims, c)
	}
}

func (c *Claims) finished(r *record, acknowledged bool) bool {
	for _, one := range c.items {
		if one.record == r && (!acknowledged || !one.quiet && !one.published) {
			return false
		}
	}
	return true
}

func (v *View) free(r *record) {
	if r.top != nil || r.move > 0 || r.pending || r.name == "" {
		return
	}
	delete(v.records, r.name)
	if r.waited {
		if one := v.movers.queue[r.name]; one != nil && one.state == isClaimed {
			v.movers.enqueue(one)
		}
	}
	*r = record{}
	if len(v.freeRecords) < 1<<12 {
		v.freeRecords = append(v.freeRecords, r)
	}
}
