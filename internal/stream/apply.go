package stream

import (
	"context"
	"maps"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
)

// commits is what one commit changes. Who applies facts has it: there is one at a time.
type commits struct {
	records []*record
	changes []store.Change
	// names holds the bytes of the entities.
	names []byte
}

// Other facts may be applied meanwhile: Apply looks up again what they change.
func (v *View) prepareFacts(ctx context.Context, facts []Message) (*Prepared, error) {
	p := prepared.Get().(*Prepared)
	p.name(v, facts)
	if err := p.run(ctx, v); err != nil {
		prepared.Put(p)
		return nil, err
	}
	return p, nil
}

func (l *Prepared) name(v *View, facts []Message) {
	l.begin(len(facts))
	for i := range facts {
		l.add(v, facts[i].Shard, facts[i].Row, facts[i].Key)
	}
}

// Apply applies facts by rule 6, those of one TP in their order: what was read of the bus, for
// which p was prepared, or, where c is not nil, the messages of a batch that the bus has
// acknowledged. With that its claims end. One call is made at a time. commit is called once with
// what changes, while others may decide as before; then that is installed. If it fails nothing has
// changed, and Apply may be called again. An entry that is claimed changes in the claim, too.
func (v *View) Apply(ctx context.Context, facts []Message, p *Prepared, c *Claims, commit func([]store.Change) error) error {
	if p == nil {
		p = prepared.Get().(*Prepared)
		// What is claimed has its entry in memory.
		p.name(v, facts)
	}
	defer prepared.Put(p)
	if c == nil {
		if _, err := p.repeat(ctx, v); err != nil {
			return err
		}
	}
	stored := false
	// Also where compute or commit panics: the stream stops, and its facts are read again.
	defer func() { v.install(c, stored) }()
	err := commit(v.compute(facts, p, c))
	stored = err == nil
	return err
}

func (v *View) compute(facts []Message, p *Prepared, c *Claims) []store.Change {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := &v.commits
	k.records, k.changes, k.names = k.records[:0], k.changes[:0], k.names[:0]
	for i := range facts {
		r := v.records[string(p.key(i))]
		if r == nil {
			r = v.newRecord(p.key(i), p.entries[i])
		}
		if next, applied := Apply(v.latest(r), &facts[i]); applied {
			v.change(r, next)
		}
		v.free(r)
	}
	if c != nil {
		for _, one := range c.items {
			if next, moved := one.move(v.latest(one.record)); moved {
				v.change(one.record, next)
			}
		}
	}
	for _, r := range k.records {
		from := len(k.names)
		k.names = append(k.names, r.name...)
		k.changes = append(k.changes, store.Change{Entity: k.names[from:len(k.names):len(k.names)], Entry: r.next})
	}
	return k.changes
}

func (v *View) install(c *Claims, stored bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := &v.commits
	for i, r := range k.records {
		if r.pending = false; stored {
			r.base = r.next
			v.count(v.hash(k.changes[i].Entity)).Add(1)
		}
		v.free(r)
	}
	if stored && c != nil {
		v.end(c, true)
	}
	if k.records = k.records[:0]; cap(k.names) > keepArena {
		k.names = nil
	}
}

// latest returns the entry of r as the commit that is being made leaves it.
func (v *View) latest(r *record) store.Entry {
	if r.pending {
		return r.next
	}
	return v.renewed(r.base)
}

// move returns e with what a claim without a message changes, unless a message has changed e
// since the decision.
func (one *item) move(e store.Entry) (store.Entry, bool) {
	event := one.entry.Event
	if one.behind != nil {
		event = one.behind.entry.Event
	}
	if !one.quiet || e.Event != event || e.State != one.was {
		return e, false
	}
	e.Shard, e.Row, e.Digest, e.State, e.Since = one.entry.Shard, one.entry.Row, one.entry.Digest, one.entry.State, one.entry.Since
	e.Disputed = e.Disputed || one.entry.Disputed
	return e, true
}

func (v *View) change(r *record, next store.Entry) {
	if r.next = next; !r.pending {
		r.pending = true
		v.commits.records = append(v.commits.records, r)
	}
}

// IsLast is the question of rule 23 about a message of an entity that a batch of the shard claims:
// whether m, which the bus holds instead of it, is, applied by rule 6, the entity's last one. Else
// the message is to be sent again under another id.
func (v *View) IsLast(shard string, entity []byte, m *Message) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.records[string(v.scope.append(nil, shard, entity))]
	if r == nil {
		return false
	}
	next, _ := Apply(v.renewed(r.base), m)
	return next.At == m.At && !next.Disputed
}

// maxLate is how many entities of late messages the store names. Beyond it a reconcile is due
// (rule 7).
const maxLate = 1000

// lateEntities are the entities of late messages whose owners have not decided yet, as the store
// names them: an offset that has passed a late message is in one batch with the name.
type lateEntities struct {
	// named is nil before the store was read.
	named map[lateEntity]*lateName
	last  uint64
	// over says that the last messages had too many.
	over bool
	// ready says that the stream has caught up: they are nominated from then on.
	ready bool
}

type lateEntity struct{ shard, entity string }

// lateName is the number of its part in the store. decided is closed once its owner has decided;
// nil while it is not nominated.
type lateName struct {
	number  uint64
	decided <-chan struct{}
}

// change adds to b what has the store name entities, or name those no more that are named.
func (l *lateEntities) change(b *store.Batch, stream string, entities map[lateEntity]*lateName) {
	for e, name := range entities {
		part := store.Part{Kind: store.LateEntities, Number: name.number}
		if l.named[e] == nil {
			// An empty key has a form, too.
			part.Bytes = append([]byte{}, e.entity...)
		}
		key := store.Key{Stream: stream, Shard: e.shard}
		i := slices.IndexFunc(b.Shards, func(c store.ShardChange) bool { return c.Key == key })
		if i < 0 {
			i = len(b.Shards)
			b.Shards = append(b.Shards, store.ShardChange{Key: key})
		}
		b.Shards[i].Parts = append(b.Shards[i].Parts, part)
	}
}

// name returns the entities of late facts that the store does not name yet, and is to name (rule
// 7). Where they are too many, a reconcile is due instead.
func (f *Feed) name(ctx context.Context, c *change, facts []Message) (names map[lateEntity]*lateName, err error) {
	if err := f.loadLate(ctx); err != nil {
		return nil, c.unread(err)
	}
	l, late, fits := &f.late, 0, true
	names = make(map[lateEntity]*lateName)
	for i := range facts {
		if m := &facts[i]; m.Late {
			late++
			e := lateEntity{m.Shard, string(m.Key)}
			known := l.named[e] != nil || names[e] != nil
			if fits = fits && (known || len(l.named)+len(names) < maxLate); fits && !known {
				names[e] = &lateName{number: l.last + uint64(len(names)) + 1}
			}
		}
	}
	if !fits && !l.over {
		f.opts.Logger.Warn("too many late messages to decide one by one: a reconcile follows", "stream", f.opts.Stream, "messages", late)
	}
	if l.over = !fits; fits {
		return names, nil
	}
	return nil, c.demandAll(ctx)
}

func (f *Feed) nominate(e lateEntity) {
	decided := f.opts.Movers.Nominate(e.shard, []byte(e.entity))
	if one := f.late.named[e]; one != nil {
		one.decided = decided
	}
}

// loadLate has what the store names of late messages be known before anything is added to it.
func (f *Feed) loadLate(ctx context.Context) error {
	if f.opts.Movers == nil || f.late.named != nil {
		return nil
	}
	shards := slices.AppendSeq(slices.Clone(f.opts.Known), maps.Keys(f.states))
	slices.Sort(shards)
	named := make(map[lateEntity]*lateName)
	for _, shard := range slices.Compact(shards) {
		for part, err := range f.opts.Store.Parts(ctx, store.Key{Stream: f.opts.Stream, Shard: shard}, store.LateEntities, 0) {
			if err != nil {
				return err
			}
			named[lateEntity{shard, string(part.Bytes)}] = &lateName{number: part.Number}
			f.late.last = max(f.late.last, part.Number)
		}
	}
	f.late.named = named
	return nil
}

// Ready says that the stream has caught up: the entities that the store names are nominated, and
// those that Apply names from now on. It may be called again after ErrUnread; any other error is
// that of the store.
func (f *Feed) Ready(ctx context.Context) error {
	if f.opts.Movers == nil {
		return nil
	}
	return f.opts.Committer.Still(ctx, func(store.Store) error {
		if err := f.loadLate(ctx); err != nil {
			return f.newChange(nil).unread(err)
		}
		f.late.ready = true
		for e := range f.late.named {
			f.nominate(e)
		}
		return nil
	})
}

// forgetWithin is how long ForgetDecided waits to acquire the committer, which is handed from one
// that waits to the next.
const forgetWithin = time.Second

// ForgetDecided has the store forget the names of entities that were decided, and a reconcile be
// due for those that were dropped, since too many wait. Call it about once a second, and again
// after store.ErrOutage. ErrUnread stops nothing.
func (f *Feed) ForgetDecided(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, forgetWithin)
	defer cancel()
	release, err := f.opts.Committer.Acquire(soon)
	if err != nil {
		// A commit may wait for the disk: the next call will do.
		return context.Cause(ctx)
	}
	defer release()
	if n := f.dropped.Load(); n != f.demanded {
		if err := f.reconcile(ctx, &store.Batch{}, Cover{}); err != nil {
			return err
		}
		f.demanded = n
	}
	b, decided := &store.Batch{}, maps.Clone(f.late.named)
	maps.DeleteFunc(decided, func(_ lateEntity, name *lateName) bool {
		select {
		case <-name.decided:
			return false
		default:
			return true
		}
	})
	if len(decided) == 0 {
		return nil
	}
	f.late.change(b, f.opts.Stream, decided)
	if err := f.opts.Committer.Commit(ctx, b, Cover{}); err != nil {
		return err
	}
	for e := range decided {
		delete(f.late.named, e)
	}
	return nil
}
