package stream

import (
	"bytes"
	"context"
	"hash/maphash"
	"sort"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
)

// Row is what a row says of its entity.
type Row struct {
	ID uint64
	// Entity is the key of its messages, Digest that of the published columns.
	Entity []byte
	Digest [16]byte
	// Deleted says that a column, or the condition of the stream, has the row deleted. That is no
	// news of an entity of which nothing was published; it is noted unless the row is Silent.
	Deleted, Silent bool
	// Keyless says that the row is not an entity: it says nothing. Stale says that the row counts
	// as one that is not there.
	Keyless, Stale bool
}

// Decision is what a row is news of. Of an absent entity it has no more of the row than the
// entity.
type Decision struct {
	Row
	// Known is the entry that was decided by. With Disputed the message needs an id of its own on
	// the bus (rule 23).
	Known store.Entry
	// Op says what happened to the entity, News whether that is to be published.
	Op   event.Op
	News bool
	// Again says that it is no news, and is published all the same: the last event once more.
	Again bool
	// Nominate says that nothing was decided: give the entity to Movers. The row is not handled.
	Nominate bool

	item *item
	// behind is a claim of the same batch that has no event yet.
	behind *item
}

// Previous is the event id that the next event of the entity links to; zero for none. It is valid
// once the messages before it have been published.
func (d *Decision) Previous() [16]byte {
	if d.behind != nil {
		return d.behind.entry.Event
	}
	return d.Known.Event
}

// Prepare looks up what Decide needs of rows of a shard. A batch of the shard may be on its way:
// Decide looks up again what that changes.
func (v *View) Prepare(ctx context.Context, shard string, rows []Row, p *Prepared) error {
	p.begin(len(rows))
	for i := range rows {
		p.add(v, shard, rows[i].ID, rows[i].Entity)
	}
	return p.run(ctx, v)
}

// Decide appends to dst what rows say, in their order, and claims what is news or changes the
// row of an entity. p is what Prepare has made of these rows, nil where it was not called. With an
// error nothing is claimed. The decisions share the memory of rows.
// Invariant 3: rows are decided in the order of their reads.
func (v *View) Decide(ctx context.Context, c *Claims, rows []Row, p *Prepared, dst []Decision) ([]Decision, error) {
	if p != nil {
		c.lookup, *p = *p, c.lookup
	} else if err := v.Prepare(ctx, c.shard, rows, &c.lookup); err != nil {
		return dst, err
	}
	if err := c.lookup.lock(ctx, v); err != nil {
		return dst, err
	}
	defer v.mu.Unlock()
	for i := range rows {
		dst = append(dst, Decision{Row: rows[i]})
		v.decide(c, &dst[len(dst)-1], i)
	}
	return dst, nil
}

// Lookup appends to dst what the store has of entities of a shard: nothing that is in flight.
func (v *View) Lookup(ctx context.Context, shard string, entities [][]byte, dst []store.Entry) ([]store.Entry, error) {
	l := prepared.Get().(*Prepared)
	defer prepared.Put(l)
	if err := l.findEntities(ctx, v, shard, entities); err != nil {
		return dst, err
	}
	for _, e := range l.entries {
		dst = append(dst, v.renewed(e))
	}
	return dst, nil
}

// Absent appends to dst what follows from entities having no row, in any table of the stream
// where they share entities. Prove that before (invariant 5).
func (v *View) Absent(ctx context.Context, c *Claims, entities [][]byte, dst []Decision) ([]Decision, error) {
	if err := c.lookup.findEntities(ctx, v, c.shard, entities); err != nil {
		return dst, err
	}
	if err := c.lookup.lock(ctx, v); err != nil {
		return dst, err
	}
	defer v.mu.Unlock()
	for i, entity := range entities {
		dst = append(dst, Decision{Row: Row{Entity: entity}, Op: event.Deleted})
		v.absent(c, &dst[len(dst)-1], i)
	}
	return dst, nil
}

// entry finds the record of the i-th entity of c's lookup, nil for none, and what is known of it.
// It reports whether c may decide.
func (v *View) entry(c *Claims, d *Decision, i int) (r *record, free bool) {
	if len(v.records) > 0 {
		r = v.records[string(c.lookup.key(i))]
	}
	switch {
	case r == nil:
		d.Known = v.renewed(c.lookup.entries[i])
	case r.top != nil && r.shard == c.shard:
		d.Known = r.top.entry
		one := r.top
		if one.quiet {
			one = one.behind
		}
		if one != nil && !one.published {
			d.behind = one
		}
	default:
		d.Known = v.renewed(r.base)
	}
	// Claims of c may be added to those of r.
	return r, r == nil || (r.move == 0 || r.permitted == c) && (r.top == nil || r.shard == c.shard)
}

func (v *View) decide(c *Claims, d *Decision, i int) {
	if d.Keyless {
		return
	}
	r, free := v.entry(c, d, i)
	if d.Stale {
		// As of an entity without a row: reconcile finds it, with its guard, and Movers prove it.
		d.Nominate = d.Known.Disputed && d.Known.State != store.Live && d.Known.State != store.Recorded
		return
	}
	if !free {
		// Rule 29: also for a row without news, since the claimed entity may change.
		d.Nominate = true
		return
	}
	permitted := r != nil && r.permitted == c
	if permitted {
		r.decided = true
	}
	if d.Known.State != store.Unknown && !d.Known.Disputed && v.lost(c, d, r, i) {
		return
	}
	if !permitted && d.Known.State != store.Unknown && (d.Known.Shard != c.shard || d.ID < d.Known.Row) {
		// Another row has the entity: one in another shard (rule 29), or a younger one (rule 17).
		d.Nominate = true
		return
	}
	var moves bool
	d.Op, d.News, moves = verdict(&d.Known, c.shard, &d.Row)
	entry := entryOfRow(c.shard, &d.Row)
	switch {
	case d.Known.State == store.Unknown && (d.ID <= c.Floor || d.Deleted && !d.Silent):
		// Rule 16. A deleted row is noted, so that an older read of its entity is contested.
		d.News = false
		if !d.Deleted {
			entry.State = store.Recorded
		}
	case d.News:
	case c.Again && d.Known.State == store.Live && !d.Deleted && !moves:
		d.News, d.Again = true, true
	case moves:
		c.Moved = true
		entry = d.Known
		entry.Shard, entry.Row = c.shard, d.ID
	default:
		return
	}
	if r == nil {
		r = v.newRecord(c.lookup.key(i), d.Known)
	}
	v.claim(c, r, d, entry)
}

func entryOfRow(shard string, d *Row) store.Entry {
	if d.Deleted {
		return store.Entry{Shard: shard, Row: d.ID, State: store.Tombstone}
	}
	return store.Entry{Shard: shard, Row: d.ID, Digest: d.Digest, State: store.Live}
}

// lost reports whether a row lost against another one of its key, and is as it was, as that one was
// when it was published.
func (v *View) lost(c *Claims, d *Decision, r *record, i int) bool {
	if c.Afresh || len(v.handled) == 0 {
		return false
	}
	// The row that the entry was made of, as far as the entry tells.
	winner := version{d.Known.Shard, d.Known.Row, d.Known.Digest, d.Known.State == store.Tombstone}
	if r != nil && r.permitted == c {
		winner = r.winner
	}
	_, lost := v.handled[maphash.Comparable(v.seed, duplicateRow{c.lookup.hashes[i], winner, d.version(c.shard)})]
	return lost
}

// moves says that what is not news is in another row than the entry says.
func verdict(known *store.Entry, shard string, d *Row) (op event.Op, news, moves bool) {
	moves = known.Row != d.ID || known.Shard != shard
	switch known.State {
	case store.Live, store.Recorded:
		if d.Deleted {
			return event.Deleted, true, false
		}
		news = known.Digest != d.Digest || known.Disputed
		return event.Modified, news, moves && !news
	case store.Tombstone:
		if !d.Deleted {
			return event.Added, true, false
		}
		return event.Deleted, known.Disputed, moves && !known.Disputed
	case store.Absent:
		if !d.Deleted {
			return event.Added, true, false
		}
		if d.Silent {
			return event.Deleted, known.Disputed, false
		}
		// Its entity is deleted. That a row comes back is seen where the database was killed,
		// and has forgotten a delete that could be read.
		return event.Deleted, moves || known.Disputed, false
	}
	if d.Deleted {
		return event.Deleted, false, false
	}
	return event.Added, true, false
}

func (v *View) absent(c *Claims, d *Decision, i int) {
	r, free := v.entry(c, d, i)
	permitted := r != nil && r.permitted == c
	if permitted {
		r.decided = true
	}
	known := &d.Known
	if !free || !permitted && known.State != store.Unknown && known.Shard != c.shard {
		d.Nominate = true
		return
	}
	switch known.State {
	case store.Live, store.Recorded:
		d.News = true
	case store.Tombstone, store.Absent:
		d.News = known.Disputed
	}
	d.ID = known.Row
	if !d.News && known.State != store.Tombstone {
		return
	}
	entry := store.Entry{Shard: c.shard, Row: known.Row, State: store.Absent, Since: c.Time.UTC().Truncate(time.Second)}
	if !d.News {
		since := entry.Since
		entry = *known
		entry.State, entry.Digest, entry.Since = store.Absent, [16]byte{}, since
	}
	if r == nil {
		r = v.newRecord(c.lookup.key(i), *known)
	}
	v.claim(c, r, d, entry)
}

// Formers appends to dst the entities that rows of a shard had when they were published last, and
// have no more, in the order of the rows: their keys were updated. Look each up before anything is
// concluded. The rows ascend, and have all of an id.
func (v *View) Formers(ctx context.Context, shard string, rows []Row, dst []store.Change) ([]store.Change, error) {
	var list []store.Change
	for len(rows) > 0 {
		n := 1
		for i := 1; i < len(rows) && n < formersAtOnce && rows[i].ID-rows[i-1].ID <= 1; i++ {
			n += int(rows[i].ID - rows[i-1].ID)
		}
		var err error
		if list, err = v.ByRow(ctx, shard, rows[0].ID-1, n, list[:0]); err != nil || len(list) == 0 {
			return dst, err
		}
		for from := 0; from < len(list); {
			id, to := list[from].Entry.Row, from+1
			for to < len(list) && list[to].Entry.Row == id {
				to++
			}
			dst = appendFormers(dst, list[from:to], rowsOf(rows, id))
			from = to
		}
		last := list[len(list)-1].Entry.Row
		rows = rows[sort.Search(len(rows), func(i int) bool { return rows[i].ID > last }):]
	}
	return dst, nil
}

const formersAtOnce = 256

// rowsOf returns those of ascending rows that have an id.
func rowsOf(rows []Row, id uint64) []Row {
	from := sort.Search(len(rows), func(i int) bool { return rows[i].ID >= id })
	to := from
	for to < len(rows) && rows[to].ID == id {
		to++
	}
	return rows[from:to]
}

// appendFormers appends the entities of list, all that were published last with one id, that none
// of the rows with that id has.
func appendFormers(dst, list []store.Change, rows []Row) []store.Change {
	if len(rows) == 0 {
		return dst
	}
	var has map[string]bool
	if len(rows) > 1 {
		has = make(map[string]bool, len(rows))
		for i := range rows {
			has[string(rows[i].Entity)] = true
		}
	}
	for _, known := range list {
		if !has[string(known.Entity)] && !bytes.Equal(rows[0].Entity, known.Entity) {
			dst = append(dst, known)
		}
	}
	return dst
}
