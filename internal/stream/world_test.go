package stream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/tests/testall"
)

// toyRow is one row of a toy table. A key has at most one row in all tables.
type toyRow struct {
	key, state int
	deleted    bool
}

// toyMessage is a message of the toy bus; state 0 says that the entity is deleted.
type toyMessage struct {
	Message
	key, state int
	// batch is that which sent it, nil once that has ended. covered says that the view has it.
	batch   *toyBatch
	covered bool
}

// toyBatch is what a shard has at the bus.
type toyBatch struct {
	claims   *Claims
	page     *toyPage
	messages []*toyMessage
	// arrived says that the bus has it.
	arrived bool
}

// toyPage is what an owner has read and not decided.
type toyPage struct {
	rows  []Row
	moves []Move
	// prepared is nil where the entries are looked up once the rows are decided about.
	prepared *Prepared
	// notices are the ids that are read again if the page comes to nothing.
	notices []uint64
	keys    map[int]bool
}

// toyOwner is a shard.
type toyOwner struct {
	w     *toyWorld
	shard string
	table map[uint64]toyRow
	last  uint64
	// notices are ids of rows that were inserted or changed, inbox the moves of the shard.
	notices map[uint64]bool
	inbox   []Move
	page    *toyPage
	// deciding says that a batch is being made.
	deciding bool
	flying   *toyBatch
	// doubt are the offsets that are to be read before the next batch (rule 9).
	doubt []int
}

type toyWorld struct {
	rng    *rand.Rand
	owners []*toyOwner
	bus    [3][]*toyMessage
	read   [3]int
	// net are batches that are sent and have not arrived.
	net []*toyBatch
	// gone are keys whose row was deleted, and that are to be noticed.
	gone   []int
	keys   int
	typed  bool
	seq    uint64
	view   *View
	movers *Movers
	// between, when not nil, is called between two reads of tables, and before a lookup returns.
	between func()
	// applying says that facts are being applied: others are not.
	applying bool
	now      time.Time
	faults   []string
}

const toyStream = "toys"

type toyStore struct {
	store.Store
	w *toyWorld
}

func (s *toyStore) Lookup(ctx context.Context, stream string, asks []store.Ask, dst []store.Entry) ([]store.Entry, error) {
	dst, err := s.Store.Lookup(ctx, stream, asks, dst)
	// Under the view's lock nothing else happens.
	if between := s.w.between; between != nil && s.w.view.mu.TryLock() {
		s.w.view.mu.Unlock()
		s.w.between = nil
		between()
		s.w.between = between
	}
	return dst, err
}

func newToyWorld(seed uint64) *toyWorld {
	w := &toyWorld{rng: rand.New(rand.NewPCG(seed, 9)), now: time.Unix(1_760_000_000, 0)}
	w.keys, w.typed = 1+w.rng.IntN(4), w.rng.IntN(2) == 0
	w.view = NewView(toyStream, &toyStore{memory.New(), w}, func(tp uint32) uint32 { return tp })
	snapshot := w.rng.IntN(2) == 0
	w.movers = NewMovers(w.view, MoversOptions{
		Shards: []string{"a", "b", "c"},
		Read: func(_ context.Context, _ string, entities [][]byte) (FoundRows, error) {
			return w.readKeys(entities, snapshot), nil
		},
		Publish: w.hand, Pause: time.Microsecond, Now: func() time.Time { return w.now },
	})
	for _, shard := range []string{"a", "b", "c"} {
		w.owners = append(w.owners, &toyOwner{w: w, shard: shard, table: map[uint64]toyRow{}, notices: map[uint64]bool{}})
	}
	return w
}

func (w *toyWorld) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func toyKey(key int) []byte { return fmt.Appendf(nil, "key%d", key) }

func toyDigest(state int) (d [16]byte) {
	d[0] = byte(state)
	return d
}

func (w *toyWorld) find(key int) (o *toyOwner, id uint64, r toyRow) {
	for _, o := range w.owners {
		for id, r := range o.table {
			if r.key == key {
				return o, id, r
			}
		}
	}
	return nil, 0, toyRow{}
}

// readKeys is what Movers reads.
func (w *toyWorld) readKeys(entities [][]byte, snapshot bool) FoundRows {
	reading := FoundRows{Rows: make([][]Found, len(entities)), Snapshot: snapshot}
	for _, o := range w.owners {
		for id, r := range o.table {
			for i, entity := range entities {
				if string(entity) == string(toyKey(r.key)) {
					f := Found{Shard: o.shard, Row: id, Digest: toyDigest(r.state), Deleted: r.deleted}
					reading.Rows[i] = append(reading.Rows[i], f)
				}
			}
		}
		if between := w.between; !snapshot && between != nil {
			w.between = nil
			between()
			w.between = between
		}
	}
	if !snapshot {
		// Where a row was read twice, as it moved, the later read counts.
		for i := range reading.Rows {
			if n := len(reading.Rows[i]); n > 1 {
				reading.Rows[i] = reading.Rows[i][n-1:]
			}
		}
	}
	return reading
}

func (w *toyWorld) hand(_ context.Context, shard string, moves []Move) error {
	for _, o := range w.owners {
		if o.shard == shard {
			o.inbox = append(o.inbox, moves...)
		}
	}
	return nil
}

func (w *toyWorld) write() {
	key, state := w.rng.IntN(w.keys), 1+w.rng.IntN(2)
	o, id, r := w.find(key)
	to := w.owners[w.rng.IntN(len(w.owners))]
	n := w.rng.IntN(10)
	switch {
	case o == nil || n < 5:
		// Inserted, replaced or moved.
		if o != nil {
			delete(o.table, id)
		}
		to.last++
		to.table[to.last] = toyRow{key: key, state: state}
		to.notices[to.last] = true
	case n < 7:
		delete(o.table, id)
		w.gone = append(w.gone, key)
	default:
		o.table[id] = toyRow{key: key, state: state, deleted: n == 7 && !r.deleted}
		o.notices[id] = true
	}
}

// notice nominates keys whose row is gone, as a reconcile does. One that is in a page may come
// back by it, and is found by the next run.
func (w *toyWorld) notice() {
	w.gone = slices.DeleteFunc(w.gone, func(key int) bool {
		for _, o := range w.owners {
			if o.page != nil && o.page.keys[key] {
				return false
			}
		}
		w.movers.Nominate("", toyKey(key))
		return true
	})
}

// check compares what a decision knows with the messages that the view has, where nothing of the
// entity is in flight.
func (w *toyWorld) check(o *toyOwner, b *toyBatch, d *Decision) {
	if w.between == nil {
		return
	}
	for _, one := range b.claims.items {
		// Behind a row before it in the batch.
		if d.item != nil && one != d.item && one.record == d.item.record {
			return
		}
	}
	for _, o := range w.owners {
		if b := o.flying; b != nil && slices.ContainsFunc(b.messages, func(m *toyMessage) bool { return string(m.Key) == string(d.Entity) }) {
			return
		}
	}
	fold, want := w.fold(func(m *toyMessage) bool { return m.covered }), [16]byte{}
	for _, m := range fold {
		if string(m.Key) == string(d.Entity) {
			want = m.Event
			if d.News && !d.Known.Disputed && d.Op != event.Deleted && m.State.Kind == sink.StateLive && m.State.Digest == d.Digest {
				w.fault("%s is published again", d.Entity)
			}
		}
	}
	if d.Known.Event != want {
		w.fault("%s decides about %s by event %x, the bus has %x", o.shard, d.Entity, d.Known.Event[:8], want[:8])
	}
}

func (w *toyWorld) deliver(b *toyBatch) {
	w.net = slices.DeleteFunc(w.net, func(o *toyBatch) bool { return o == b })
	b.arrived = true
	for _, m := range b.messages {
		tp := m.At.TP - 1
		m.At.Offset = uint64(len(w.bus[tp]))
		w.bus[tp] = append(w.bus[tp], m)
	}
}

// apply returns a commit. Others decide, and drop batches, before and behind the write.
func (w *toyWorld) apply(ctx context.Context) func([]store.Change) error {
	beside := func() {
		for range w.rng.IntN(3) {
			if w.between != nil {
				w.step(ctx, false)
			}
		}
	}
	return func(changes []store.Change) error {
		w.applying = true
		defer func() { w.applying = false }()
		beside()
		defer beside()
		return w.view.store.Apply(ctx, &store.Batch{Views: []store.ViewChange{{Stream: toyStream, Changes: changes}}})
	}
}

// readOn reads a TP up to its end, or to a message that is in flight.
func (w *toyWorld) readOn(ctx context.Context, tp int) {
	var late []Message
	from, next := w.read[tp], w.read[tp]
	for ; next < len(w.bus[tp]) && w.bus[tp][next].batch == nil; next++ {
		if m := w.bus[tp][next]; !m.covered {
			late = append(late, m.Message)
		}
	}
	if next == from {
		return
	}
	p, err := w.view.prepareFacts(ctx, late)
	if err == nil {
		err = w.view.Apply(ctx, late, p, nil, w.apply(ctx))
	}
	if err != nil {
		w.fault("%v", err)
	}
	for _, m := range w.bus[tp][from:next] {
		m.covered = true
	}
	w.read[tp] = next
	for i := range late {
		w.movers.Nominate(late[i].Shard, late[i].Key)
	}
}

// fold is what a consumer makes of the bus: the last message of a key in each TP, and of these
// the one with the highest stamp.
func (w *toyWorld) fold(has func(*toyMessage) bool) map[int]*toyMessage {
	all := map[int]*toyMessage{}
	for _, log := range w.bus {
		last := map[int]*toyMessage{}
		for _, m := range log {
			if has(m) {
				last[m.key] = m
			}
		}
		for key, m := range last {
			if a := all[key]; a == nil || a.State.Seq < m.State.Seq {
				all[key] = m
			}
		}
	}
	return all
}

// compare compares the bus with the tables, and looks for what was left behind.
func (w *toyWorld) compare() {
	fold := w.fold(func(*toyMessage) bool { return true })
	for key := range w.keys {
		o, id, r := w.find(key)
		want, got := 0, 0
		if o != nil && !r.deleted {
			want = r.state
		}
		if m := fold[key]; m != nil {
			got = m.state
		}
		if got != want {
			w.fault("key %d has the state %d (row %d), the bus says %d", key, want, id, got)
		}
	}
	if n := w.movers.Waiting(); n > 0 {
		w.fault("%d entities wait", n)
	}
	w.view.mu.Lock()
	defer w.view.mu.Unlock()
	if n := len(w.view.records); n > 0 {
		w.fault("%d records are left", n)
	}
	for shard := range w.view.begun {
		w.fault("claims of %s are left", shard)
	}
}

// step does one thing at random.
func (w *toyWorld) step(ctx context.Context, nested bool) {
	o := w.owners[w.rng.IntN(len(w.owners))]
	switch n := w.rng.IntN(24); {
	case n < 4:
		w.write()
	case n < 8:
		o.readPage()
	case n < 12 && !nested:
		o.decide(ctx)
	case n < 15:
		w.deliverOne()
	case n < 18 && !w.applying:
		o.acknowledge(ctx)
	case n == 18:
		if w.rng.IntN(3) == 0 {
			o.cancel()
		}
	case n >= 19 && n < 21 && !w.applying:
		w.readOn(ctx, w.rng.IntN(len(w.bus)))
	case n == 21:
		w.notice()
	case !nested:
		w.pass(ctx)
	}
}

func (w *toyWorld) deliverOne() {
	if len(w.net) > 0 {
		w.deliver(w.net[w.rng.IntN(len(w.net))])
	}
}

func (w *toyWorld) pass(ctx context.Context) {
	if _, _, err := w.movers.Pass(ctx); err != nil {
		w.fault("%v", err)
	}
}

// idle does all that is left to do.
func (w *toyWorld) idle(ctx context.Context) {
	for left, rounds := 40, 0; left > 0 && rounds < 10_000; rounds++ {
		if left--; w.movers.Waiting() > 0 {
			left = 40
		}
		for _, o := range w.owners {
			o.readPage()
			o.decide(ctx)
			for len(w.net) > 0 {
				w.deliver(w.net[0])
			}
			o.acknowledge(ctx)
			if len(o.notices) > 0 {
				left = 40
			}
		}
		for tp := range w.bus {
			w.readOn(ctx, tp)
		}
		w.notice()
		w.now = w.now.Add(time.Minute)
		w.pass(ctx)
	}
}

// life is one random life of a world. It returns what does not hold.
func life(seed uint64) (faults []string) {
	ctx := context.Background()
	w := newToyWorld(seed)
	w.between = func() {
		for range w.rng.IntN(3) {
			w.step(ctx, true)
		}
	}
	for range 40 + int(seed%160) {
		w.now = w.now.Add(time.Millisecond)
		if w.step(ctx, false); len(w.faults) > 0 {
			return w.faults
		}
	}
	w.between = nil
	w.idle(ctx)
	w.compare()
	return w.faults
}

func TestTheBusEndsAsTheTables(t *testing.T) {
	for seed := range uint64(testall.Cases(1500, 40_000)) {
		if faults := life(seed); len(faults) > 0 {
			t.Fatalf("seed %d: %v", seed, faults)
		}
	}
}
