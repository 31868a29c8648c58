package catchup_test

import (
	"context"
	"maps"
	"slices"
	"sync"

	"bridge/checkpoint/store"
	"bridge/internal/catchup"
)

// toy is a Feed: a view that is entries by catchup.Apply, and a queue of nominations.
type toy struct {
	name      string
	store     store.Store
	committer *catchup.Committer

	mu sync.Mutex
	// nominated are entities that wait, due says that a reconcile follows. seen are the messages
	// that were applied, in their order, if a test keeps them.
	nominated map[string]bool
	due       bool
	keep      bool
	seen      []catchup.Message
	err       error
	// followed counts the calls of Follow.
	followed int
	// panics has Apply panic.
	panics bool
}

func newToy(name string) *toy { return &toy{name: name, nominated: make(map[string]bool)} }

// entry returns the entry of an entity as it is now. f.mu is held, or nobody else uses f.
func (f *toy) entry(ctx context.Context, key string) (store.Entry, error) {
	list, err := f.store.Lookup(ctx, f.name, store.Asks([]byte(key)), nil)
	if err != nil {
		return store.Entry{}, err
	}
	e := list[0]
	if now := f.committer.InForce(e.At.TP); now != e.At.TP && e.State != store.Unknown {
		e = catchup.Renewed(e, now)
	}
	return e, nil
}

// changes returns the entries after messages.
func (f *toy) changes(ctx context.Context, messages []catchup.Message) (*store.Batch, error) {
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
		if next, applied := catchup.Apply(e, m); applied {
			changed[string(m.Key)] = next
		}
	}
	view := store.ViewChange{Stream: f.name}
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		view.Changes = append(view.Changes, store.Change{Entity: []byte(key), Entry: changed[key]})
	}
	return &store.Batch{Views: []store.ViewChange{view}}, nil
}

func (f *toy) Apply(ctx context.Context, messages []catchup.Message, commit func(*store.Batch) error) error {
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
	if err := commit(b); err != nil {
		return err
	}
	for i := range messages {
		if f.keep {
			m := messages[i]
			m.Key = slices.Clone(m.Key)
			f.seen = append(f.seen, m)
		}
		if messages[i].Late {
			f.nominated[string(messages[i].Key)] = true
		}
	}
	return nil
}

func (f *toy) Nominated() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.nominated)
}

func (f *toy) Follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followed++
}

func (f *toy) Restore(b *store.Batch, commit func(*store.Batch) error) error { return commit(b) }

func (f *toy) Reconcile(_ context.Context, commit func(*store.Batch) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := commit(&store.Batch{Shards: []store.ShardChange{{
		Key: store.Key{Stream: f.name, Shard: "a"}, Progress: &store.Progress{ReconcileDue: true, Saved: published},
	}}}); err != nil {
		return err
	}
	f.due = true
	clear(f.nominated)
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
