package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/testall"
)

type scenario struct {
	name     string
	opts     ledger.Options
	window   time.Duration
	blind    bool // no evidence
	crashes  bool
	longest  time.Duration
	stall    time.Duration
	step     uint64
	tiny     bool // bounds so small that not all that is hot fits into a probe
	mayLose  bool // ids that the tail loses stay missing: reconcile publishes them
	strictly bool // ids must be published in strict order
}

const (
	hot = 3 * time.Second
	ttl = 5 * time.Second
)

var scenarios = []scenario{
	{name: "late, at once", opts: ledger.Options{HotFor: hot, GapTTL: time.Hour}},
	{name: "late, with a window", opts: ledger.Options{HotFor: hot, GapTTL: time.Hour}, window: time.Second},
	{name: "transactions far longer than the TTL", opts: ledger.Options{HotFor: hot, GapTTL: ttl}, longest: 2 * time.Minute},
	{name: "a TTL far below the hot time", opts: ledger.Options{HotFor: hot, GapTTL: time.Millisecond}, longest: time.Minute},
	{name: "crashes", opts: ledger.Options{HotFor: hot, GapTTL: ttl, Away: time.Hour}, window: 500 * time.Millisecond, crashes: true},
	{name: "statements that stall longer than the hot time", opts: ledger.Options{HotFor: time.Second, GapTTL: time.Hour}, stall: 30 * time.Second, crashes: true},
	{name: "a stride of 3", opts: ledger.Options{HotFor: hot, GapTTL: ttl, Order: source.OrderStrided}, step: 3, crashes: true},
	{name: "segmented", opts: ledger.Options{HotFor: hot, GapTTL: time.Hour, Order: source.OrderSegmented}, stall: 30 * time.Second, crashes: true},
	{name: "more than a probe holds", opts: ledger.Options{HotFor: hot, GapTTL: ttl}, tiny: true, crashes: true},
	{name: "segmented, more than a probe holds", opts: ledger.Options{HotFor: hot, GapTTL: time.Hour, Order: source.OrderSegmented}, stall: 30 * time.Second, tiny: true},
	{name: "no evidence", opts: ledger.Options{HotFor: hot, GapTTL: ttl}, blind: true, longest: 4 * time.Second, crashes: true},
	{name: "no evidence and transactions longer than the TTL", opts: ledger.Options{HotFor: hot, GapTTL: ttl}, blind: true, mayLose: true},
	{name: "hold", opts: ledger.Options{HotFor: hot, GapTTL: ttl, Policy: ledger.GapHold}, strictly: true},
	{name: "hold, with a window", opts: ledger.Options{HotFor: hot, GapTTL: ttl, Policy: ledger.GapHold}, window: time.Second, strictly: true},
	{name: "hold and crashes", opts: ledger.Options{HotFor: hot, GapTTL: ttl, Policy: ledger.GapHold}, crashes: true},
	{name: "hold, more than a probe holds", opts: ledger.Options{HotFor: hot, GapTTL: ttl, Policy: ledger.GapHold}, tiny: true, strictly: true},
}

// TestNothingCommittedIsLost runs writers against an owner and checks: nothing committed is neither
// published nor in the ledger, nothing is published twice save after a crash, nothing rolled back
// is published, what the tail does not publish is missing for ever, and hold keeps the order.
func TestNothingCommittedIsLost(t *testing.T) {
	seeds := testall.Pick(uint64(1), 2)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			for seed := range seeds {
				if !t.Run(fmt.Sprint(seed), func(t *testing.T) { s.run(t, rand.New(rand.NewPCG(seed, 7))) }) {
					break
				}
			}
		})
	}
}

func (s scenario) run(t *testing.T, rng *rand.Rand) {
	w := newTable(rng)
	w.step = max(s.step, 1)
	if s.longest > 0 {
		w.longest = s.longest
	}
	if s.stall > 0 {
		w.stall = s.stall
	}
	if s.tiny {
		s.opts.MaxRanges, s.opts.MaxRows, s.opts.MaxIDs = 4, 20, 100
	}
	o := newOwner(w, s.opts)
	o.window, o.evidence = s.window, !s.blind
	o.between = func() {
		if rng.IntN(3) == 0 {
			w.pass(time.Millisecond)
		}
	}
	may := map[uint64]int{}
	for range 700 {
		for range rng.IntN(6) {
			w.begin()
			w.pass(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
		}
		w.pass(time.Duration(rng.Int64N(int64(150 * time.Millisecond))))
		o.poll()
		if rng.IntN(2) == 0 {
			o.ack(rng.IntN(4))
		}
		if s.crashes && rng.IntN(50) == 0 {
			for _, id := range o.crash(time.Hour) {
				may[id]++
			}
		}
	}
	for range 700 {
		w.pass(500 * time.Millisecond)
		o.poll()
		o.ack(100)
	}
	s.checkEnd(t, o, may)
}

func (s scenario) checkEnd(t *testing.T, o *owner, may map[uint64]int) {
	if len(o.world.open) > 0 {
		t.Fatal("transactions are still open")
	}
	times := map[uint64]int{}
	for i, id := range o.published {
		if s.strictly && i > 0 && id <= o.published[i-1] {
			t.Errorf("id %d is published after %d", id, o.published[i-1])
		}
		if _, ok := o.world.commits[id]; !ok {
			t.Errorf("id %d is published and was never committed", id)
		}
		times[id]++
	}
	lost := 0
	for _, id := range o.world.committed {
		switch {
		case times[id] == 0:
			lost++
			gone := slices.ContainsFunc(o.unpolled, func(g ledger.Unpolled) bool { return g.First <= id && id <= g.Last })
			if !s.mayLose || !gone || !o.l.Missing(id) {
				t.Errorf("id %d is lost, missing %t, no longer polled %t", id, o.l.Missing(id), gone)
			}
		case times[id] > 1+may[id]:
			t.Errorf("id %d is published %d times, %d crashes allow for one more each", id, times[id], may[id])
		}
	}
	if s.mayLose && lost == 0 {
		t.Error("nothing was lost: the check could not fail")
	}
	for r := range o.l.Unpublished {
		for id := r.First; id <= r.Last && r.Last-r.First < 1000; id++ {
			if times[id] > 0 {
				t.Errorf("id %d was published and is missing", id)
			}
		}
	}
	if len(o.world.committed) < 1000 || len(o.late) < 50 && s.opts.Policy != ledger.GapHold {
		t.Errorf("only %d commits and %d late ones", len(o.world.committed), len(o.late))
	}
}

// table is a plain model of a table whose ids are drawn from one counter: ids, transactions that
// commit, roll back, burn ids or insert them late.
type table struct {
	rng  *rand.Rand
	now  time.Time
	next uint64
	// step is the distance between the ids of one counter, as auto_increment_increment.
	step uint64
	open []*transaction
	// committed are the ids of the table, inserted those of uncommitted rows.
	committed []uint64
	inserted  map[uint64]bool
	commits   map[uint64]time.Time
	longest   time.Duration
	stall     time.Duration
}

type transaction struct {
	// ids are handed out already; they are inserted at the time in inserts and the transaction ends
	// at ends.
	ids      []uint64
	inserts  []time.Time
	ends     time.Time
	rollback bool
}

func newTable(rng *rand.Rand) *table {
	return &table{rng: rng, now: base, next: 1, step: 1, inserted: map[uint64]bool{}, commits: map[uint64]time.Time{}, longest: 20 * time.Second, stall: time.Second}
}

func (w *table) begin() {
	tx := &transaction{ends: w.now.Add(time.Duration(w.rng.Int64N(int64(10 * time.Millisecond)))), rollback: w.rng.Float64() < 0.1}
	if w.rng.Float64() < 0.1 {
		tx.ends = w.now.Add(time.Duration(w.rng.Int64N(int64(w.longest))))
	}
	n := 1
	if w.rng.Float64() < 0.2 {
		n += w.rng.IntN(5)
	}
	for range n {
		id := w.next
		w.next += w.step
		if w.rng.Float64() < 0.05 {
			continue // burned by a failed insert
		}
		at := w.now
		if w.rng.Float64() < 0.2 {
			at = at.Add(time.Duration(w.rng.Int64N(int64(w.stall))))
		}
		tx.ids, tx.inserts = append(tx.ids, id), append(tx.inserts, at)
		if at.After(tx.ends) {
			tx.ends = at
		}
	}
	if w.rng.Float64() < 0.002 {
		w.next += w.rng.Uint64N(1_000_000)
	}
	w.open = append(w.open, tx)
}

func (w *table) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.open = slices.DeleteFunc(w.open, func(tx *transaction) bool {
		ended := !tx.ends.After(w.now)
		for i, id := range tx.ids {
			switch {
			case !ended && !tx.inserts[i].After(w.now):
				w.inserted[id] = true
			case ended:
				delete(w.inserted, id)
				if !tx.rollback {
					w.commit(id)
				}
			}
		}
		return ended
	})
}

func (w *table) commit(id uint64) {
	i, _ := slices.BinarySearch(w.committed, id)
	w.committed = slices.Insert(w.committed, i, id)
	w.commits[id] = w.now
}

// rows returns up to limit committed ids in ranges, and the part of the ranges that was read.
func (w *table) rows(ranges []source.Range, limit int) ([]uint64, []source.Range) {
	var ids []uint64
	for _, r := range ranges {
		i, _ := slices.BinarySearch(w.committed, r.First)
		for ; i < len(w.committed) && w.committed[i] <= r.Last; i++ {
			if len(ids) == limit {
				return ids, source.RangesThrough(ranges, ids[limit-1])
			}
			ids = append(ids, w.committed[i])
		}
	}
	return ids, ranges
}

// ids returns up to limit ids in ranges, with those of uncommitted rows, and the part of the ranges
// that was read.
func (w *table) ids(ranges []source.Range, limit int) ([]uint64, []source.Range) {
	ids, _ := w.rows(ranges, 1<<40)
	for id := range w.inserted {
		for _, r := range ranges {
			if r.First <= id && id <= r.Last {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	if len(ids) > limit {
		return ids[:limit], source.RangesThrough(ranges, ids[limit-1])
	}
	return ids, ranges
}

// owner drives a ledger over a table as the owner of a shard does, and publishes to a bus that
// acknowledges late.
type owner struct {
	world *table
	opts  ledger.Options
	l     *ledger.Ledger
	// window holds young rows back; evidence says whether uncommitted ids can be seen.
	window   time.Duration
	evidence bool
	limit    int

	// sent are batches on their way to the bus, disk the state saved last.
	sent []batch
	disk disk
	at   uint64

	published []uint64
	late      map[uint64]time.Time
	unpolled  []ledger.Unpolled
	// low is what Low returned after the last poll.
	low     uint64
	queries int
	// between lets time go by between two reads of one poll.
	between func()
}

type batch struct {
	ids      []uint64
	position uint64
	chunks   []ledger.Chunk
}

func newOwner(w *table, opts ledger.Options) *owner {
	l, err := ledger.New(opts, 0)
	if err != nil {
		panic(err)
	}
	return &owner{world: w, opts: opts, l: l, evidence: true, limit: 200, disk: disk{}, late: map[uint64]time.Time{}, between: func() {}}
}

func (o *owner) poll() {
	w := o.world
	page, _ := w.rows([]source.Range{{First: o.l.Position() + 1, Last: 1<<64 - 1}}, o.limit)
	maxID := uint64(0)
	if n := len(w.committed); n > 0 {
		maxID = w.committed[n-1]
	}
	now := w.now
	o.l.See(maxID, now)
	if o.opts.Policy == ledger.GapHold {
		o.l.Notice(page, now)
	}
	o.between()
	late := o.probe()
	through, stable := uint64(0), []uint64(nil)
	for _, id := range page {
		if now.Sub(w.commits[id]) < o.window {
			if o.opts.Policy == ledger.GapHold {
				break
			}
			continue
		}
		stable, through = append(stable, id), id
	}
	if o.opts.Policy == ledger.GapHold {
		through = o.l.Reach(through, now)
		stable = stable[:sort.Search(len(stable), func(i int) bool { return stable[i] > through })]
	}
	for _, id := range late {
		if !o.l.Fill(id, now) {
			panic("a late id is not missing")
		}
		o.late[id] = now
		givenUp := func(u ledger.Unpolled) bool { return u.First <= id && id <= u.Last }
		if id < o.low && !slices.ContainsFunc(o.unpolled, givenUp) {
			panic(fmt.Sprintf("id %d is late, Low was %d", id, o.low))
		}
	}
	o.l.Advance(through, stable, now)
	o.low = o.l.Low()
	o.sent = append(o.sent, batch{ids: append(late, stable...), position: o.l.Position(), chunks: o.l.Changed()})
}

// probe reads the hot ids and a part of the cold ones, and returns the stable late ids.
func (o *owner) probe() (late []uint64) {
	w := o.world
	probe := o.l.Hot(w.now)
	if len(probe.Rows) > 0 {
		rows, read := w.rows(probe.Rows, o.limit)
		if len(rows) == o.limit && !slices.Equal(read, probe.Rows) {
			o.l.CutOff(rows[len(rows)-1])
		}
		for _, id := range rows {
			switch {
			case !o.l.Missing(id):
			case w.now.Sub(w.commits[id]) < o.window:
				o.l.Young(id)
			default:
				late = append(late, id)
			}
		}
		o.queries++
	}
	o.between()
	if len(probe.IDs) > 0 {
		o.unpolled = append(o.unpolled, o.l.Observe(o.read(probe.IDs))...)
		o.queries++
	}
	if ranges := o.l.Sweep(w.now); len(ranges) > 0 {
		o.unpolled = append(o.unpolled, o.l.Swept(o.read(ranges))...)
	}
	return late
}

func (o *owner) read(ranges []source.Range) ledger.Evidence {
	e := ledger.Evidence{Now: o.world.now}
	if o.evidence {
		e.IDs, e.Ranges = o.world.ids(ranges, 3*o.limit)
	} else {
		e.IDs, e.Ranges = o.world.rows(ranges, 3*o.limit)
	}
	return e
}

// ack lets the bus acknowledge the first n batches, and saves them as one.
func (o *owner) ack(n int) {
	n = min(n, len(o.sent))
	if n == 0 {
		return
	}
	for _, b := range o.sent[:n] {
		o.published = append(o.published, b.ids...)
		o.disk.save(b.chunks)
	}
	o.at = o.sent[n-1].position
	o.sent = o.sent[n:]
}

// crash loses what was not saved; some of what was on its way reached the bus. It returns those
// ids: they come again.
func (o *owner) crash(away time.Duration) (repeated []uint64) {
	for _, b := range o.sent {
		if o.world.rng.IntN(2) == 0 {
			break
		}
		repeated = append(repeated, b.ids...)
	}
	o.published = append(o.published, repeated...)
	o.sent = nil
	opts := o.opts
	opts.Away = away
	var err error
	if len(o.disk) == 0 {
		o.l, err = ledger.New(opts, 0)
	} else {
		o.l, err = restore(opts, o.at, o.disk.chunks())
		o.low = 0
	}
	if err != nil {
		panic(err)
	}
	return repeated
}
