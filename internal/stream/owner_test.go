package stream

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/sink"
)

// readPage reads rows, where the owner may.
func (o *toyOwner) readPage() {
	for tp, end := range o.doubt {
		if o.w.read[tp] < end {
			return
		}
	}
	o.doubt = nil
	if o.page != nil {
		return
	}
	p := &toyPage{keys: map[int]bool{}}
	add := func(id uint64) {
		r := o.table[id]
		p.rows = append(p.rows, Row{ID: id, Entity: toyKey(r.key), Digest: toyDigest(r.state), Deleted: r.deleted})
		p.keys[r.key] = true
	}
	if p.moves, o.inbox = o.inbox, nil; len(p.moves) > 0 {
		for _, id := range slices.Sorted(maps.Keys(o.table)) {
			if slices.ContainsFunc(p.moves, func(m Move) bool { return string(m.Entity) == string(toyKey(o.table[id].key)) }) {
				add(id)
			}
		}
	} else {
		for _, id := range slices.Sorted(maps.Keys(o.notices))[:min(3, len(o.notices))] {
			delete(o.notices, id)
			if _, there := o.table[id]; there {
				add(id)
				p.notices = append(p.notices, id)
			}
		}
	}
	if len(p.rows)+len(p.moves) == 0 {
		return
	}
	if o.page = p; o.w.rng.IntN(2) == 0 {
		p.prepared = new(Prepared)
		if err := o.w.view.Prepare(context.Background(), o.shard, p.rows, p.prepared); err != nil {
			o.w.fault("%v", err)
		}
	}
}

func (o *toyOwner) decide(ctx context.Context) {
	w, p := o.w, o.page
	if p == nil || o.flying != nil {
		return
	}
	o.deciding = true
	defer func() { o.deciding = false }()
	b := &toyBatch{page: p, claims: w.view.Begin(o.shard)}
	b.claims.Time = w.now
	b.claims.Permit(p.moves)
	decisions, err := w.view.Decide(ctx, b.claims, p.rows, p.prepared, nil)
	w.add(o, b, decisions, err)
	var without [][]byte
	for _, m := range p.moves {
		there := slices.ContainsFunc(p.rows, func(r Row) bool { return string(r.Entity) == string(m.Entity) })
		if m.Absent && !there {
			without = append(without, m.Entity)
		}
	}
	decisions, err = w.view.Absent(ctx, b.claims, without, nil)
	w.add(o, b, decisions, err)
	o.page, o.flying = nil, b
	w.net = append(w.net, b)
}

func (w *toyWorld) add(o *toyOwner, b *toyBatch, decisions []Decision, err error) {
	if err != nil {
		w.fault("%v", err)
	}
	for i := range decisions {
		d := &decisions[i]
		w.check(o, b, d)
		if d.Nominate {
			w.movers.Nominate(o.shard, d.Entity)
		}
		if !d.News {
			continue
		}
		w.seq++
		m := &toyMessage{batch: b, Message: Message{Key: d.Entity}}
		binary.BigEndian.PutUint64(m.Event[:], w.seq)
		m.State.Epoch, m.State.Seq = 1, w.seq
		m.Shard, m.Row, m.Time = o.shard, d.ID, w.now
		if _, err := fmt.Sscanf(string(d.Entity), "key%d", &m.key); err != nil {
			panic(err)
		}
		switch {
		case d.Op != event.Deleted:
			m.State.Digest, m.state = d.Digest, int(d.Digest[0])
		case d.item.entry.State == store.Tombstone:
			m.State.Kind = sink.StateTombstone
		default:
			m.State.Kind = sink.StateAbsent
		}
		m.At.TP = 1 + uint32(m.key%len(w.bus))
		if w.typed {
			m.At.TP = map[event.Op]uint32{event.Added: 1, event.Modified: 2, event.Deleted: 3}[d.Op]
		}
		b.messages = append(b.messages, m)
		d.Publish(m.Event)
	}
}

func (o *toyOwner) acknowledge(ctx context.Context) {
	b := o.flying
	if b == nil || !b.arrived {
		return
	}
	var facts []Message
	for _, m := range b.messages {
		facts = append(facts, m.Message)
	}
	// It is not cancelled meanwhile.
	o.deciding = true
	if err := o.w.view.Apply(ctx, facts, nil, b.claims, o.w.apply(ctx)); err != nil {
		o.w.fault("%v", err)
	}
	o.flying, o.deciding = nil, false
	for _, m := range b.messages {
		m.batch, m.covered = nil, true
	}
}

// cancel gives up the batch of the shard, whose outcome is unknown, and the page that was read
// ahead.
func (o *toyOwner) cancel() {
	w, b, p := o.w, o.flying, o.page
	if o.deciding {
		return
	}
	o.page, o.flying, o.doubt = nil, nil, []int{len(w.bus[0]), len(w.bus[1]), len(w.bus[2])}
	// What comes meanwhile has ended with Stop, or is for the next attempt.
	o.inbox = nil
	w.view.Stop(o.shard)
	if p != nil {
		o.readAgain(p)
	}
	if b == nil {
		return
	}
	for _, m := range b.messages {
		m.batch = nil
	}
	o.readAgain(b.page)
	// The bus may get it, or not.
	if w.rng.IntN(2) == 0 {
		w.net = slices.DeleteFunc(w.net, func(o *toyBatch) bool { return o == b })
	}
}

// readAgain has rows of a page that was given up be read again.
func (o *toyOwner) readAgain(p *toyPage) {
	for _, id := range p.notices {
		o.notices[id] = true
	}
}
