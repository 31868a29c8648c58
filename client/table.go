package client

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"example.org/bridge/client/backoff"
)

// Table is a copy in memory of what a capability stream says about each entity. All of its methods
// are safe for concurrent use; Run is called once.
type Table struct {
	bus   Bus
	o     Options
	ready chan struct{}
	began time.Time

	mu sync.RWMutex
	// current is the copy that is served. next is under construction, of a bus that was made again.
	current, next                *fold
	watchers                     map[*watcher]struct{}
	counts                       [outcomes]uint64
	foreign, stateless, rebuilds uint64

	faults faults
}

// Stats describe a table.
type Stats struct {
	// Entities is how many there are, Deletions of how many others it is remembered that they were
	// deleted. Forgotten counts deletions that were forgotten early, to bound memory.
	Entities, Deletions int
	Forgotten           uint64
	// Applied counts messages that have changed the copy. Repeated says that it had the event,
	// Older that it had a newer one, Outdated that the message is of before a change of KEY.
	Applied, Repeated, Older, Outdated uint64
	// Foreign counts messages of others, Stateless those of the stream without the header
	// bridge-state: a bridge that wrote none does not say what they follow, so they are passed
	// over.
	Foreign, Stateless uint64
	// Rebuilds counts how often the copy was made again from the beginning.
	Rebuilds uint64
}

// NewTable returns a table that Run fills.
func NewTable(bus Bus, o Options) (*Table, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	t := &Table{bus: bus, o: o, ready: make(chan struct{}), began: time.Now(), watchers: make(map[*watcher]struct{})}
	t.current = newFold(false, t.changed)
	return t, nil
}

// Ready returns a channel that is closed once the copy holds all that the bus held when Run began:
// by the end offsets that the leaders told. It stays closed. Before, the copy lacks entities.
func (t *Table) Ready() <-chan struct{} { return t.ready }

// Get returns the last event of an entity, and whether there is the entity.
func (t *Table) Get(key string) (Event, bool) {
	t.mu.RLock()
	e := t.current.entities[key]
	t.mu.RUnlock()
	if e == nil {
		return Event{}, false
	}
	return e.event(t.o.Stream, key, e.body), true
}

// Len returns how many entities there are.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.current.entities)
}

// All yields the last event of each entity, in no order: those that are there when it begins,
// unaffected by what changes meanwhile. It takes 24 bytes an entity for as long as it lasts.
func (t *Table) All() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		type item struct {
			key    string
			entity *entity
		}
		t.mu.RLock()
		items := make([]item, 0, len(t.current.entities))
		for key, e := range t.current.entities {
			items = append(items, item{key, e})
		}
		t.mu.RUnlock()
		for _, i := range items {
			if !yield(i.entity.event(t.o.Stream, i.key, i.entity.body)) {
				return
			}
		}
	}
}

// Err returns why the copy does not follow the bus at present, nil where it does. Run retries for
// ever, so it is for a health check. A fault that has ended may stay for a minute.
func (t *Table) Err() error { return t.faults.err() }

// Stats returns counts.
func (t *Table) Stats() Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return Stats{
		Entities: len(t.current.entities), Deletions: t.current.deleted.len(), Forgotten: t.current.deleted.forgotten,
		Applied: t.counts[applied], Repeated: t.counts[repeated], Older: t.counts[older], Outdated: t.counts[outdated],
		Foreign: t.foreign, Stateless: t.stateless, Rebuilds: t.rebuilds,
	}
}

// errAgain says that the bus was made again, or has lost unread messages.
var errAgain = errors.New("the copy is made again from the beginning of the bus")

// Run reads the stream from the beginning, and on and on, until ctx ends; it then returns nil. It
// retries what may heal for ever, and returns an error for what will not: a message of the stream
// that cannot be understood, as of a newer bridge.
func (t *Table) Run(ctx context.Context) (err error) {
	reader, err := t.bus.Open(Opening{Destinations: t.o.Destinations, Fault: func(tp string, err error) { t.faults.outage(t.o.Logger, tp, err) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 10 * time.Second}
	for {
		begun := time.Now()
		err := t.read(ctx, reader)
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, errAgain) {
			return err
		}
		t.mu.Lock()
		t.rebuilds++
		t.mu.Unlock()
		t.o.Logger.Warn("the table is made again from the beginning", "stream", t.o.Stream, "reason", err)
		if time.Since(begun) > time.Minute {
			pause.Reset()
		}
		if pause.Wait(ctx) != nil {
			return nil
		}
	}
}

// changed tells watchers of a change. t.mu is held.
func (t *Table) changed(key string, before, _ *entity) {
	for w := range t.watchers {
		w.change(key, before != nil)
	}
}

// faultLasts is for how long a fault of the bus holds that is not reported again: it is at each
// attempt, and most of these end within seconds.
const faultLasts = time.Minute

// faults keeps the faults of the present, by the TP or else that they are of.
type faults struct {
	failing atomic.Bool
	mu      sync.Mutex
	last    map[string]fault
	// logged is when the log had a line about a fault of the bus.
	logged time.Time
}

// fault is one that lasts until its end, or where that is not zero until a time.
type fault struct {
	error
	until time.Time
}

// outage notes a fault of the bus that is waited out. The log has a line at most once a minute.
func (f *faults) outage(log *slog.Logger, of string, err error) {
	now := time.Now()
	f.fail(of, fault{err, now.Add(faultLasts)})
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.logged) >= time.Minute {
		f.logged = now
		log.Warn("outage, retrying until it ends", "dependency", of, "error", err)
	}
}

func (f *faults) fail(of string, one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = make(map[string]fault)
	}
	f.last[of] = one
	f.failing.Store(true)
}

func (f *faults) end(of string) { f.forget(func(name string, _ fault) bool { return name == of }) }

func (f *faults) joined() { f.forget(func(_ string, one fault) bool { return !one.until.IsZero() }) }

func (f *faults) forget(which func(string, fault) bool) {
	if !f.failing.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.last, which)
	f.failing.Store(len(f.last) > 0)
}

func (f *faults) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []error
	for _, one := range f.last {
		if one.until.IsZero() || time.Now().Before(one.until) {
			all = append(all, one.error)
		}
	}
	return errors.Join(all...)
}

// Change is a change of an entity.
type Change struct {
	// Key is the key of the entity.
	Key string
	// Operation is Added, Modified or Deleted, compared with what this watcher was told last of the
	// entity, or else with what was there when it began.
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
		for ctx.Err() == nil {
			change, found, news := t.nextChange(w)
			switch {
			case !found:
				select {
				case <-w.woken:
				case <-ctx.Done():
				}
			case news && !yield(change):
				return
			}
		}
	}
}

// watcher keeps the keys of the entities that have changed since its last Change. Table.mu guards
// it.
type watcher struct {
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

func (w *watcher) change(key string, before bool) {
	if _, noted := w.there[key]; noted {
		return
	}
	w.there[key] = before
	w.keys = append(w.keys, key)
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// nextChange takes the key that changed first, if there is one; news is false where it need not be
// told, as the entity came and went.
func (t *Table) nextChange(w *watcher) (c Change, found, news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(w.keys) == 0 {
		w.keys = nil
		return Change{}, false, false
	}
	c.Key, w.keys[0] = w.keys[0], ""
	w.keys = w.keys[1:]
	before, e := w.there[c.Key], t.current.entities[c.Key]
	delete(w.there, c.Key)
	switch {
	case e == nil:
		c.Operation = Deleted
		return c, true, before
	case before:
		c.Operation = Modified
	default:
		c.Operation = Added
	}
	c.Event = e.event(t.o.Stream, c.Key, e.body)
	return c, true, true
}
