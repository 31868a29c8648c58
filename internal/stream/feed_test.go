package stream_test

import (
	"context"
	"maps"
	"slices"
	"sync"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
)

// toy is a Feed: a view that is entries by Apply, and a queue of nominations.
type toy struct {
	name      string
	store     store.Store
	committer *stream.Committer

	mu sync.Mutex
	// named has the part of each entity that the store names, nominated those that wait. due says
	// that a reconcile follows. seen are the messages that were applied, in their order, if a test
	// keeps them.
	named     map[string]uint64
	nominated map[string]bool
	ready     bool
	due       bool
	keep      bool
	seen      []stream.Message
	err       error
	// followed counts the calls of Follow.
	followed int
	// panics has Apply panic.
	panics bool
}

// fail has Apply return err.
func (f *toy) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func newToy(name string) *toy {
	return &toy{name: name, named: make(map[string]uint64), nominated: make(map[string]bool)}
}

// entry returns the entry of an entity as it is now. f.mu is held, or nobody else uses f.
func (f *toy) entry(ctx context.Context, key string) (store.Entry, error) {
	list, err := f.store.Lookup(ctx, f.name, store.Asks([]byte(key)), nil)
	if err != nil {
		return store.Entry{}, err
	}
	e := list[0]
	if now := f.committer.InForce(e.At.TP); now != e.At.TP && e.State != store.Unknown {
		e = stream.Renewed(e, now)
	}
	return e, nil
}

// changes returns the entries after messages.
func (f *toy) changes(ctx context.Context, messages []stream.Message) (*store.Batch, error) {
	changed := make(map[string]store.Entry)
	for i := range messages {
		m := &messages[i]
		e, ok := changed[string(m.Key)]
		if !ok {
			var err error
			if e, err = f.entry(ctx, string(m.Key)); err != nil {
				return nil, err
			}
		}
		if next, applied := stream.Apply(e, m); applied {
			changed[string(m.Key)] = next
		}
	}
	view := store.ViewChange{Stream: f.name}
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		view.Changes = append(view.Changes, store.Change{Entity: []byte(key), Entry: changed[key]})
	}
	return &store.Batch{Views: []store.ViewChange{view}}, nil
}

// commit commits b as a feed does.
func (f *toy) commit(ctx context.Context, b *store.Batch, cover stream.Cover) error {
	release, err := f.committer.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f.committer.Commit(ctx, merged(b), cover)
}

func (f *toy) Apply(ctx context.Context, messages []stream.Message, _ *stream.Read, cover stream.Cover) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics {
		panic("a defect")
	}
	if f.err != nil {
		return f.err
	}
	b, err := f.changes(ctx, messages)
	if err != nil {
		return err
	}
	named := maps.Clone(f.named)
	for i := range messages {
		if key := string(messages[i].Key); messages[i].Late && named[key] == 0 {
			named[key] = uint64(len(named)) + 1
			b.Shards = append(b.Shards, f.part(named[key], []byte(key)))
		}
	}
	if err := f.commit(ctx, b, cover); err != nil {
		return err
	}
	f.named = named
	for i := range messages {
		if f.keep {
			m := messages[i]
			m.Key = slices.Clone(m.Key)
			f.seen = append(f.seen, m)
		}
		if messages[i].Late && f.ready {
			f.nominated[string(messages[i].Key)] = true
		}
	}
	return nil
}

// part is a change of the entities that the store names.
func (f *toy) part(number uint64, entity []byte) store.ShardChange {
	part := store.Part{Kind: store.LateEntities, Number: number, Bytes: entity}
	return store.ShardChange{Key: store.Key{Stream: f.name, Shard: "a"}, Parts: []store.Part{part}}
}

// merged has b change each shard once.
func merged(b *store.Batch) *store.Batch {
	for len(b.Shards) > 1 {
		b.Shards[0].Parts = append(b.Shards[0].Parts, b.Shards[1].Parts...)
		b.Shards = slices.Delete(b.Shards, 1, 2)
	}
	return b
}

func (f *toy) Ready(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = true
	clear(f.named)
	for part, err := range f.store.Parts(ctx, store.Key{Stream: f.name, Shard: "a"}, store.LateEntities, 0) {
		if err != nil {
			return err
		}
		f.named[string(part.Bytes)], f.nominated[string(part.Bytes)] = part.Number, true
	}
	return nil
}

func (f *toy) ForgetDecided(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, named := &store.Batch{}, maps.Clone(f.named)
	for key, number := range f.named {
		if !f.nominated[key] {
			b.Shards = append(b.Shards, f.part(number, nil))
			delete(named, key)
		}
	}
	if len(b.Shards) == 0 {
		return nil
	}
	if err := f.commit(ctx, b, stream.Cover{}); err != nil {
		return err
	}
	f.named = named
	return nil
}

func (f *toy) Follow(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followed++
	return nil
}

func (f *toy) Restore(ctx context.Context, b *store.Batch) error {
	return f.commit(ctx, b, stream.Cover{})
}

func (f *toy) Reconcile(ctx context.Context, b *store.Batch, cover stream.Cover) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	whole := *b
	whole.Shards = append(whole.Shards, store.ShardChange{
		Key: store.Key{Stream: f.name, Shard: "a"}, Progress: &store.Progress{ReconcileDue: true, Saved: published},
	})
	if err := f.commit(ctx, &whole, cover); err != nil {
		return err
	}
	f.due = true
	return nil
}

// waiting returns the entities that wait.
func (f *toy) waiting() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.nominated))
}

// decided notes that the entity waits no longer.
func (f *toy) decided(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nominated, key)
}
