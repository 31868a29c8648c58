package reconcile_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

// writer changes a table at random, knows what it holds, and tells the world which entities it
// takes away.
type writer struct {
	w    *world
	mu   sync.Mutex
	rand *rand.Rand
	rows map[string]uint64
	next int
}

func (c *writer) pick() (name string, id uint64) {
	names := slices.Sorted(maps.Keys(c.rows))
	if len(names) == 0 {
		return "", 0
	}
	name = names[c.rand.IntN(len(names))]
	return name, c.rows[name]
}

func (c *writer) value() string { return fmt.Sprint(c.rand.IntN(3)) }

func (c *writer) change() {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, id := c.pick()
	kind := c.rand.IntN(10)
	if name == "" || len(c.rows) < 10 {
		kind = 0
	}
	switch kind {
	case 0, 1:
		c.next++
		name = fmt.Sprintf("n%d", c.next)
		c.rows[name] = c.w.table.Insert(name, c.value(), "0")
	case 2, 3:
		c.rows[name] = c.w.table.Replace(name, c.value(), "0")
	case 4, 5:
		c.w.table.Update(id, name, c.value())
	case 6:
		c.w.touch(name)
		c.w.table.Update(id, name, c.value(), fmt.Sprint(c.rand.IntN(2)))
	case 7:
		c.w.touch(name)
		c.w.table.Delete(id)
		delete(c.rows, name)
		if c.rand.IntN(2) == 0 {
			c.rows[name] = c.w.table.Insert(name, c.value(), "0")
		}
	case 8:
		// The key changes, in its case too; the row stays.
		c.w.touch(name)
		delete(c.rows, name)
		c.next++
		name = fmt.Sprintf("%c%d", "nN"[c.rand.IntN(2)], c.next)
		c.rows[name] = id
		c.w.table.Update(id, name, c.value(), "0")
	case 9:
		// A row under an old id.
		c.old()
	}
}

func (c *writer) old() {
	used := make(map[uint64]bool)
	for _, id := range c.rows {
		used[id] = true
	}
	highest := uint64(1)
	for id := range used {
		highest = max(highest, id)
	}
	for range 10 {
		if id := 1 + c.rand.Uint64N(highest); !used[id] {
			c.next++
			name := fmt.Sprintf("n%d", c.next)
			c.w.table.InsertAt(id, name, c.value(), "0")
			c.rows[name] = id
			return
		}
	}
}

func TestFoldOfTheBusIsTheTable(t *testing.T) {
	seeds := testall.Pick(uint64(15), 60)
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { testFold(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// testFold has runs go on while the table changes at every read, some of them cut short, and one at
// the end.
func testFold(t *testing.T, seed uint64) {
	t.Helper()
	filter := ""
	if seed%2 == 1 {
		filter = "value <> '2'"
	}
	w := newFilteredWorld(t, event.Capability, filter)
	w.options.MaxDeletes = 100
	if seed%3 == 2 {
		w.reads = memory.Sharing(w.table)
		w.options.Source = w.reads
	}
	c := &writer{w: w, rand: rand.New(rand.NewPCG(seed, 1)), rows: make(map[string]uint64)}
	w.options.PageRows = 1 + c.rand.IntN(40)
	for range 100 {
		c.change()
	}
	w.tail(1000)
	busy := w.options
	busy.Source = hooked{Shard: w.reads, read: func(source.Query) error {
		for range 5 {
			c.change()
		}
		w.tail(10)
		return nil
	}}
	for range 5 {
		saves := 0
		c.mu.Lock()
		busy.Committer = cut{w.store, &saves, 1 + c.rand.IntN(20), c.rand.IntN(2) == 0}
		c.mu.Unlock()
		// Some runs are cut short, to be resumed.
		_, _ = reconcile.New(busy).Run(t.Context(), reconcile.Mode{})
		for range c.rand.IntN(50) {
			c.change()
		}
		if c.rand.IntN(2) == 0 {
			w.tail(1000)
		}
	}
	w.tail(10_000)
	if run := w.recorded(); !run.Started.IsZero() && run.Ended.IsZero() {
		w.run(reconcile.Mode{})
	}
	last := w.run(reconcile.Mode{})
	if last.Resumed || last.Guard != "" {
		t.Errorf("the last run: %+v", last)
	}
	w.compare()
	checkOrder(t, w)
	view := must.Get(w.options.View.ByRow(t.Context(), key.Shard, 0, 1<<20, nil))(t)
	live := 0
	for _, e := range view {
		if e.Entry.State == store.Live {
			live++
		}
	}
	if live != len(w.live) {
		t.Errorf("the view has %d live entities, the bus %d", live, len(w.live))
	}
}

// checkOrder complains about events that no life of an entity can have: a second birth, or a change
// or an end of what is not there.
func checkOrder(t *testing.T, w *world) {
	t.Helper()
	born := make(map[string]bool)
	for i, p := range w.bus {
		switch p.op {
		case event.Added:
			if born[p.entity] {
				t.Errorf("event %d: %q was added twice", i, p.entity)
			}
			born[p.entity] = true
		case event.Modified:
			if !born[p.entity] {
				t.Errorf("event %d: %q was modified and is not there", i, p.entity)
			}
		case event.Deleted:
			born[p.entity] = false
		}
	}
}
