package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	stored "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/script"
)

var key = store.Key{Stream: "orders", Shard: "db.orders"}

// world is a table, what was published of it, and the owner between the two, as the rules for
// owners say.
type world struct {
	script.Player
	t     testing.TB
	table *memory.Table
	// reads is the table, or what it is read by.
	reads   source.Shard
	store   *stored.Store
	encoder *event.Encoder
	options reconcile.Options
	release bool

	mu       sync.Mutex
	position uint64
	// reused says that ids of the rows published last belong to other rows.
	reused  bool
	stopped bool
	page    source.Page
	// demand is the number of the last demand for a run, 0 if none is due.
	demand uint64
	// answered are the demands that were answered.
	answered []uint64
	// late is the number of a registration that is not in force; 0 for none.
	late uint32
	// ledger is the ledger of a release stream, nil for none.
	ledger *ledger.Ledger
	aged   time.Time
	// bus is what was published; live folds it: per entity the state that was published last,
	// without those deleted.
	bus  []published
	live map[string][16]byte
	// touched are entities that were removed or soft-deleted at any time; filtered says that others
	// may be deleted, too.
	touched  map[string]bool
	filtered bool
	// nominated is the size of the largest nomination.
	nominated int
	// other is another table of the stream, nil where it has none.
	other *otherTable
	began time.Time
}

// otherTable is a table, and whether it is away, missing or on a replica.
type otherTable struct {
	*world
	is string
}

// inForce returns the number in force for that of a registration.
func (w *world) inForce(tp uint32) uint32 {
	if tp == w.late {
		return tp + 1
	}
	return tp
}

type published struct {
	op     event.Op
	entity string
	row    uint64
}

func newWorld(t testing.TB, kind event.Kind) *world {
	t.Helper()
	return newFilteredWorld(t, kind, "")
}

func newFilteredWorld(t testing.TB, kind event.Kind, filter string) *world {
	t.Helper()
	return newWorldOf(t, kind, source.Spec{Created: "created", Filter: filter})
}

func newWorldOf(t testing.TB, kind event.Kind, spec source.Spec) *world {
	t.Helper()
	spec.Table, spec.ID, spec.Key, spec.Deleted, spec.UniqueKey = "orders", "id", []string{"name"}, "deleted", kind == event.Capability
	w := &world{
		Player: script.Player{TB: t}, filtered: spec.Filter != "", began: time.Now(),
		t: t, store: stored.New(), live: make(map[string][16]byte), touched: make(map[string]bool), release: kind == event.Release,
		table: memory.NewTable(spec,
			source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text}, source.Column{Name: "value", Kind: source.Int},
			source.Column{Name: "deleted", Kind: source.Int}, source.Column{Name: "created", Kind: source.DateTime}),
	}
	w.table.Loose = true
	w.reads = w.table
	w.encoder = newEncoder(t, kind)
	v := stream.NewView(key.Stream, w.store, func(tp uint32) uint32 { return w.inForce(tp) })
	w.options = reconcile.Options{
		Stream: key.Stream, Shard: key.Shard, Kind: kind, Source: w.table, NewEncoder: encoders(t, kind), Owner: w,
		Store: w.store, Committer: w.store, View: v,
		MaxDeletes: 10, PageRows: 7, SaveEvery: -1, RetryLimit: time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	return w
}

func encoders(t testing.TB, kind event.Kind) func() (*event.Encoder, error) {
	return func() (*event.Encoder, error) { return newEncoder(t, kind), nil }
}

func newEncoder(t testing.TB, kind event.Kind) *event.Encoder {
	t.Helper()
	return must.Get(event.NewEncoder(event.Options{Stream: key.Stream, Shard: key.Shard, Kind: kind, Source: "db", Table: "orders"}))(t)
}

func (w *world) tail(limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := source.Query{After: w.position, Limit: limit}
	if err := w.reads.Read(context.Background(), q, &w.page); err != nil {
		w.t.Error(err)
		return
	}
	w.publish(nil)
	if n := len(w.page.Rows); n > 0 {
		w.position = w.page.Rows[n-1].ID
	}
}

func (w *world) Reach() (uint64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.position, !w.stopped
}

func (w *world) ReconcileDue() (uint64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.demand, w.demand > 0
}

func (w *world) Reconciled(_ context.Context, demand uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answered = append(w.answered, demand); demand == w.demand {
		w.demand = 0
	}
	return nil
}

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
		if err := w.reads.Read(ctx, q, &w.page); err != nil {
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
	keys, err := event.KeysOf(w.encoder, entities)
	if err != nil {
		w.t.Error(err)
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
	for _, row := range w.page.Rows {
		s, err := w.encoder.Digest(row)
		if err != nil {
			w.t.Error(err)
		}
		seen[string(s.Key)] = true
		verdict.Add(w.publishRow(row.ID, s))
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
		w.bus = append(w.bus, published{event.Published, string(s.Key), row})
		if w.ledger != nil {
			w.ledger.Fill(row, w.aged)
			w.saveLedger(w.ledger.Changed())
		}
		return reconcile.Verdict{Missed: 1}
	}
	known, next := w.known(s.Key), store.Entry{Shard: key.Shard, Row: row, Digest: s.Sum, State: store.Live}
	if s.Deleted {
		next.State, next.Digest = store.Tombstone, [16]byte{}
	}
	switch {
	case s.Silent && (known.State == store.Unknown || known.State == store.Absent) && !known.Disputed:
		return verdict
	case s.Deleted && known.State == store.Tombstone && !known.Disputed:
	case s.Deleted:
		verdict.Deleted++
		w.send(event.Deleted, s.Key, row)
		delete(w.live, string(s.Key))
	case known.State != store.Live && known.State != store.Recorded:
		verdict.Added++
		w.send(event.Added, s.Key, row)
		w.live[string(s.Key)] = s.Sum
	case known.Digest != s.Sum || known.Disputed:
		verdict.Modified++
		w.send(event.Modified, s.Key, row)
		w.live[string(s.Key)] = s.Sum
	default:
		next.State = known.State
	}
	w.enter(s.Key, next)
	return verdict
}

func (w *world) publishAbsent(e []byte) (verdict reconcile.Verdict) {
	known := w.known(e)
	switch known.State {
	case store.Live, store.Recorded:
		verdict.Deleted++
		w.send(event.Deleted, e, known.Row)
		delete(w.live, string(e))
	case store.Tombstone:
	default:
		return verdict
	}
	w.enter(e, store.Entry{Shard: key.Shard, Row: known.Row, State: store.Absent, Since: w.page.Now.UTC().Truncate(time.Second)})
	return verdict
}

// send notes an event. No entity that was there all the while may be deleted.
func (w *world) send(op event.Op, e []byte, row uint64) {
	if op == event.Deleted && !w.touched[string(e)] && !w.filtered {
		w.t.Errorf("%q was deleted on the bus and there all the while", e)
	}
	w.bus = append(w.bus, published{op, string(e), row})
}

func (w *world) known(e []byte) store.Entry {
	known, err := w.options.View.Lookup(context.Background(), key.Shard, [][]byte{e}, nil)
	if err != nil {
		w.t.Error(err)
	}
	return known[0]
}

func (w *world) enter(e []byte, known store.Entry) {
	w.apply(&store.Batch{Views: []store.ViewChange{{Stream: key.Stream, Changes: []store.Change{{Entity: bytes.Clone(e), Entry: known}}}}})
}

func (w *world) apply(b *store.Batch) {
	if err := w.store.Apply(context.Background(), b); err != nil {
		w.t.Error(err)
	}
}

func (w *world) readKeys(ctx context.Context, shard string, keys [][]byte) (stream.FoundRows, error) {
	if shard != "" || len(keys) > 200 {
		w.t.Errorf("%d keys are read of the shard %q", len(keys), shard)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	reading := stream.FoundRows{Rows: make([][]stream.Found, len(keys))}
	if err := w.reads.Read(ctx, source.Query{Limit: 1}, &w.page); err != nil {
		return reading, err
	}
	if err := w.encoder.Bind(w.page.Columns); err != nil {
		return reading, err
	}
	if err := w.reads.Read(ctx, source.Query{Keys: w.keys(keys), Limit: 1 << 20}, &w.page); err != nil {
		return reading, err
	}
	for _, row := range w.page.Rows {
		seen, err := w.encoder.Digest(row)
		if err != nil {
			return reading, err
		}
		for i := range keys {
			if bytes.Equal(keys[i], seen.Key) {
				reading.Rows[i] = append(reading.Rows[i], stream.Found{Shard: key.Shard, Row: row.ID, Digest: seen.Sum, Deleted: seen.Deleted})
			}
		}
	}
	return reading, nil
}

func (w *world) readOther(ctx context.Context, shard string, keys [][]byte) (stream.FoundRows, error) {
	switch w.other.is {
	case "away":
		return stream.FoundRows{}, fmt.Errorf("b %w: no answer", stream.ErrAway)
	case "missing":
		return stream.FoundRows{}, fmt.Errorf("b %w: %w", stream.ErrAway, source.ErrMissing)
	}
	reading, err := w.other.readKeys(ctx, shard, keys)
	reading.Unproved = w.other.is == "replica"
	return reading, err
}

func (w *world) saveLedger(chunks []ledger.Chunk) {
	for _, c := range chunks {
		w.part(store.Gaps, c.Key, string(c.Bytes))
	}
}

// part saves a part of the shard, an empty text none.
func (w *world) part(kind store.Kind, number uint64, text string) {
	w.apply(&store.Batch{Shards: []store.ShardChange{{Key: key, Parts: []store.Part{{Kind: kind, Number: number, Bytes: append([]byte(nil), text...)}}}}})
}

func (w *world) record(run reconcile.Run) {
	w.t.Helper()
	w.part(store.Reconcile, 0, string(must.Get(json.Marshal(run))(w.t)))
}

func (w *world) recorded() reconcile.Run {
	w.t.Helper()
	run, _, err := reconcile.LoadRun(context.Background(), w.store, key)
	must.OK(w.t, err)
	return run
}

// touch notes that the entity of a name was removed or soft-deleted.
func (w *world) touch(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched[name] = true
}

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
	must.OK(w.t, w.reads.Read(context.Background(), source.Query{Limit: 1 << 30}, &page))
	want := make(map[string][16]byte)
	for _, row := range page.Rows {
		s := must.Get(w.encoder.Digest(row))(w.t)
		if !s.Deleted {
			want[string(s.Key)] = s.Sum
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

// hooked is a table with a function before each read, which may have it fail, and one around each
// read of ids, where they are not nil.
type hooked struct {
	source.Shard
	read    func(source.Query) error
	readIDs func(ids *source.IDs, read func() error) error
}

func (h hooked) Read(ctx context.Context, q source.Query, p *source.Page) error {
	if h.read != nil {
		if err := h.read(q); err != nil {
			return err
		}
	}
	return h.Shard.Read(ctx, q, p)
}

func (h hooked) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	read := func() error { return h.Shard.ReadIDs(ctx, ranges, uncommitted, limit, ids) }
	if h.readIDs != nil {
		return h.readIDs(ids, read)
	}
	return read()
}

func missing(source.Query) error { return source.ErrMissing }

// owner is one that answers nominations in another way than its world.
type owner struct {
	*world
	nominate func(context.Context, reconcile.Nomination) (reconcile.Verdict, error)
}

func (o owner) Nominate(ctx context.Context, n reconcile.Nomination) (reconcile.Verdict, error) {
	return o.nominate(ctx, n)
}
