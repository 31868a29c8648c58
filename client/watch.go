package client

import (
	"context"
	"iter"
	"sync"
)

// Change is what has become of an entity.
type Change struct {
	// Key is that of the entity.
	Key string
	// Operation is Added, Modified or Deleted, as this watcher sees it: an entity that it has not
	// been told of is added.
	Operation Operation
	// Event is the last event of the entity; of a deleted one it is zero.
	Event Event
}

// Watch yields changes until ctx ends: those from when it begins on, and before them, where
// present is set, each entity that is there then as added. Changes of one entity come in order. A
// watcher that is slower than the bus is told of the last change of an entity and misses those
// before, so what it has not taken yet needs memory for no more than each key once. Changes of
// different entities come about in the order in which they began.
func (t *Table) Watch(ctx context.Context, present bool) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		w := t.watch(present)
		defer t.unwatch(w)
		stop := context.AfterFunc(ctx, w.wake)
		defer stop()
		for ctx.Err() == nil {
			change, found, news := t.nextChange(w)
			switch {
			case !found:
				w.wait(ctx)
			case news && !yield(change):
				return
			}
		}
	}
}

// nextChange returns the next change for a watcher, if there is one; news is false where it need
// not be told, as the entity came and went.
func (t *Table) nextChange(w *watcher) (c Change, found, news bool) {
	// The key is taken and the entity looked up in one step, or a change between would be told
	// twice.
	t.mu.RLock()
	key, before, found := w.pop()
	e := t.current.entities[key]
	t.mu.RUnlock()
	if !found {
		return Change{}, false, false
	}
	c.Key = key
	switch {
	case e == nil:
		c.Operation = Deleted
		return c, true, before
	case before:
		c.Operation = Modified
	default:
		c.Operation = Added
	}
	c.Event = e.event(key, t.o.Stream)
	return c, true, true
}

// watcher keeps the keys of what has changed since it was told last.
type watcher struct {
	mu    sync.Mutex
	keys  []string
	there map[string]bool // whether the entity was there when it was told last
	woken chan struct{}
}

func (t *Table) watch(present bool) *watcher {
	w := &watcher{there: make(map[string]bool), woken: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers[w] = struct{}{}
	if present {
		for key := range t.current.entities {
			w.change(key, false)
		}
	}
	return w
}

func (t *Table) unwatch(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watchers, w)
}

// change notes that an entity has changed.
func (w *watcher) change(key string, before bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, noted := w.there[key]; noted {
		return
	}
	w.there[key] = before
	w.keys = append(w.keys, key)
	w.wake()
}

func (w *watcher) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// wait waits until something may have changed, or ctx ends.
func (w *watcher) wait(ctx context.Context) {
	select {
	case <-w.woken:
	case <-ctx.Done():
	}
}

// pop takes the key that changed first.
func (w *watcher) pop() (key string, before, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.keys) == 0 {
		w.keys = nil
		return "", false, false
	}
	key = w.keys[0]
	w.keys[0] = ""
	w.keys = w.keys[1:]
	before = w.there[key]
	delete(w.there, key)
	return key, before, true
}
