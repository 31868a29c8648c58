package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"bridge/checkpoint"
	store "bridge/checkpoint/memory"
	"bridge/event"
	"bridge/reconcile"
	"bridge/source"
	"bridge/source/memory"
)

var key = checkpoint.Key{Stream: "orders", Shard: "db.orders"}

// world is a table, what was published of it, and the owner between the two, as the rules for
// owners say.
type world struct {
	t       testing.TB
	table   *memory.Table
	store   *store.Store
	encoder *event.Encoder
	options reconcile.Options
	release bool

	mu       sync.Mutex
	position uint64
	// reused says that ids of the rows published last belong to other rows.
	reused  bool
	stopped bool
	page    source.Page
	// bus is what was published; live folds it: per entity the state that was published last,
	// without those deleted.
	bus  []published
	live map[string][16]byte
	// touched are entities that were removed or soft-deleted at any time.
	touched map[string]bool
	// nominated is the size of the largest nomination.
	nominated int
}

type published struct {
	op     event.Op
	entity string
	row    uint64
}

// columns of the table: the roles of spec by name.
func newWorld(t testing.TB, kind event.Kind) *world {
	t.Helper()
	spec := source.Spec{Table: "orders", ID: "id", Key: []string{"name"}, Deleted: "deleted", Created: "created", UniqueKey: kind == event.Capability}
	w := &world{
		t: t, store: store.New(), live: make(map[string][16]byte), touched: make(map[string]bool), release: kind == event.Release,
		table: memory.NewTable(spec,
			source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text}, source.Column{Name: "value", Kind: source.Int},
			source.Column{Name: "deleted", Kind: source.Int}, source.Column{Name: "created", Kind: source.DateTime}),
	}
	w.table.Loose = true
	w.encoder = newEncoder(t, kind)
	w.options = reconcile.Options{
		Stream: key.Stream, Shard: key.Shard, Kind: kind, Source: w.table, Encoder: newEncoder(t, kind), Store: w.store, Owner: w,
		MaxDeletes: 10, PageRows: 7, SaveEvery: -1, RetryLimit: time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	return w
}

func newEncoder(t testing.TB, kind event.Kind) *event.Encoder {
	t.Helper()
	e, err := event.NewEncoder(event.Options{Stream: key.Stream, Shard: key.Shard, Kind: kind, Source: "db", Table: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// entity is the entity of a name.
func entity(name string) string {
	return string(rune(len(name)+1)) + name
}

// tail publishes the rows behind the position, at most limit.
func (w *world) tail(limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := source.Query{After: w.position, Limit: limit}
	if err := w.table.Read(context.Background(), q, &w.page); err != nil {
		w.t.Error(err)
		return
	}
	w.publish(nil)
	if n := len(w.page.Rows); n > 0 {
		w.position = w.page.Rows[n-1].ID
	}
}

// Reach implements reconcile.Owner.
func (w *world) Reach() (uint64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.position, !w.stopped
}

// Nominate implements reconcile.Owner.
func (w *world) Nominate(ctx context.Context, n reconcile.Nomination) (verdict reconcile.Verdict, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return verdict, err
	}
	if w.stopped {
		return verdict, fmt.Errorf("stopped")
	}
	if n.Published && w.reused {
		return verdict, errors.New("ids are used again")
	}
	w.nominated = max(w.nominated, w.size(n))
	for _, q := range []source.Query{{Ranges: n.Rows, Limit: 1 << 20}, {Keys: w.keys(n.Entities), Limit: 1 << 20}} {
		if q.Ranges == nil && q.Keys == nil {
			continue
		}
		if err := w.table.Read(ctx, q, &w.page); err != nil {
			return verdict, err
		}
		var asked [][]byte
		if q.Keys != nil {
			asked = n.Entities
		}
		verdict.Add(w.publish(asked))
	}
	return verdict, nil
}

// size counts what n names and complains about a nomination that breaks the rules.
func (w *world) size(n reconcile.Nomination) int {
	rows, last := uint64(0), uint64(0)
	for _, r := range n.Rows {
		if r.First <= last || r.Last < r.First {
			w.t.Errorf("nominated rows are not ascending and disjoint: %v", n.Rows)
		}
		rows, last = rows+r.Last-r.First+1, r.Last
	}
	size := max(int(rows), len(n.Entities))
	if size > reconcile.MaxNominated {
		w.t.Errorf("nominated %d rows and %d entities", rows, len(n.Entities))
	}
	return size
}

func (w *world) keys(entities [][]byte) [][][]byte {
	var keys [][][]byte
	for _, e := range entities {
		values, err := w.encoder.KeyValues(e, nil)
		if err != nil {
			w.t.Error(err)
		}
		keys = append(keys, values)
	}
	return keys
}

// publish publishes what the page says that is new, then those of asked that it does not hold. The
// caller holds mu.
func (w *world) publish(asked [][]byte) (verdict reconcile.Verdict) {
	if err := w.encoder.Bind(w.page.Columns); err != nil {
		w.t.Error(err)
	}
	seen := make(map[string]bool)
	for _, record := range w.page.Rows {
		s, err := w.encoder.Digest(record)
		if err != nil {
			w.t.Error(err)
		}
		seen[string(s.Entity)] = true
		verdict.Add(w.publishRow(record.ID, s))
	}
	for _, e := range asked {
		if !seen[string(e)] {
			verdict.Add(w.publishAbsent(e))
		}
	}
	return verdict
}

func (w *world) publishRow(row uint64, s event.Digest) (verdict reconcile.Verdict) {
	if w.release {
		w.bus = append(w.bus, published{event.Published, string(s.Entity), row})
		w.save(checkpoint.State{Found: []source.Range{{First: row, Last: row}}})
		return reconcile.Verdict{Missed: 1}
	}
	known, next := w.known(s.Entity), checkpoint.Known{Row: row, State: s.Sum, Fate: checkpoint.Live}
	if s.Deleted {
		next.Fate = checkpoint.Tombstone
	}
	switch {
	case s.Deleted && known.Fate == checkpoint.Tombstone:
	case s.Deleted:
		verdict.Deleted++
		w.send(event.Deleted, s.Entity, row)
		delete(w.live, string(s.Entity))
	case known.Fate != checkpoint.Live:
		verdict.Added++
		w.send(event.Added, s.Entity, row)
		w.live[string(s.Entity)] = s.Sum
	case known.State != s.Sum:
		verdict.Modified++
		w.send(event.Modified, s.Entity, row)
		w.live[string(s.Entity)] = s.Sum
	}
	w.enter(s.Entity, next)
	return verdict
}

func (w *world) publishAbsent(e []byte) (verdict reconcile.Verdict) {
	known := w.known(e)
	switch known.Fate {
	case checkpoint.Live:
		verdict.Deleted++
		w.send(event.Deleted, e, known.Row)
		delete(w.live, string(e))
	case checkpoint.Tombstone:
	default:
		return verdict
	}
	w.enter(e, checkpoint.Known{Row: known.Row, Fate: checkpoint.Gone, Since: w.page.Now})
	return verdict
}

// send notes an event. No entity that was there all the while may be deleted.
func (w *world) send(op event.Op, e []byte, row uint64) {
	if op == event.Deleted && !w.touched[string(e)] {
		w.t.Errorf("%q was deleted on the bus and there all the while", e)
	}
	w.bus = append(w.bus, published{op, string(e), row})
}

func (w *world) known(e []byte) checkpoint.Known {
	known, err := w.store.Lookup(context.Background(), key, [][]byte{e}, nil)
	if err != nil {
		w.t.Error(err)
	}
	return known[0]
}

func (w *world) enter(e []byte, known checkpoint.Known) {
	w.save(checkpoint.State{View: []checkpoint.Change{{Entity: bytes.Clone(e), Known: known}}})
}

func (w *world) save(state checkpoint.State) {
	if err := w.store.Save(context.Background(), key, state); err != nil {
		w.t.Error(err)
	}
}

// touch notes that the entity of a name was removed or soft-deleted.
func (w *world) touch(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched[entity(name)] = true
}

// run reconciles once.
func (w *world) run(mode reconcile.Mode) reconcile.Report {
	w.t.Helper()
	report, err := reconcile.New(w.options).Run(w.t.Context(), mode)
	if err != nil {
		w.t.Fatalf("run: %v", err)
	}
	return report
}

// compare complains where the fold of the bus is not the table.
func (w *world) compare() {
	w.t.Helper()
	var page source.Page
	if err := w.table.Read(context.Background(), source.Query{Limit: 1 << 30}, &page); err != nil {
		w.t.Fatal(err)
	}
	want := make(map[string][16]byte)
	for _, record := range page.Rows {
		s, err := w.encoder.Digest(record)
		if err != nil {
			w.t.Fatal(err)
		}
		if !s.Deleted {
			want[string(s.Entity)] = s.Sum
		}
	}
	if !maps.Equal(want, w.live) {
		for _, e := range slices.Sorted(maps.Keys(want)) {
			if got, ok := w.live[e]; !ok || got != want[e] {
				w.t.Errorf("%q: published %v, differs from the table", e, ok)
			}
		}
		for e := range w.live {
			if _, ok := want[e]; !ok {
				w.t.Errorf("%q lives on the bus and is not in the table", e)
			}
		}
	}
}

// deletes counts the deleted events.
func (w *world) deletes() int {
	n := 0
	for _, p := range w.bus {
		if p.op == event.Deleted {
			n++
		}
	}
	return n
}

// fill inserts rows named prefix1 to prefixN and publishes them.
func (w *world) fill(prefix string, n int) {
	for i := 1; i <= n; i++ {
		w.table.Insert(fmt.Sprintf("%s%d", prefix, i), "1", "0")
	}
	w.tail(n)
}
