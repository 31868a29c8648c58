package ledger_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

// naive is a plain set of missing ids: ascending, disjoint ranges, joined where they touch but for
// those that put has added.
type naive []source.Range

func (n *naive) add(r source.Range) {
	if k := len(*n) - 1; k >= 0 && !r.Empty() && (*n)[k].Last+1 == r.First {
		(*n)[k].Last = r.Last
		return
	}
	n.put(r)
}

func (n *naive) put(r source.Range) {
	if !r.Empty() {
		*n = append(*n, r)
	}
}

func (n *naive) remove(id uint64) bool {
	i, _ := slices.BinarySearchFunc(*n, id, func(r source.Range, id uint64) int {
		if r.Last < id {
			return -1
		}
		return 1
	})
	if i == len(*n) || (*n)[i].First > id {
		return false
	}
	var left naive
	left.put(source.Range{First: (*n)[i].First, Last: id - 1})
	left.put(source.Range{First: id + 1, Last: (*n)[i].Last})
	*n = slices.Replace(*n, i, i+1, left...)
	return true
}

// model drives a ledger whose parts lie in a store beside a naive set.
type model struct {
	*rand.Rand
	l       *ledger.Ledger
	opts    ledger.Options
	missing naive
	top     uint64
	now     time.Time
	disk    disk
	broken  error
	// saved is what was missing, and position where, when the store was saved last.
	saved    naive
	position uint64
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{Rand: newRand(seed), now: base, disk: disk{}}
	m.opts = ledger.Options{Away: time.Hour, MaxBytes: 1, GapTTL: time.Hour, Load: func(key uint64) ([]byte, error) {
		return m.disk[key], m.broken
	}}
	m.l = mustLedger(t, m.opts, 0)
	m.save(m.l.Changed())
	return m
}

func (m *model) save(chunks []ledger.Chunk) {
	m.disk.save(chunks)
	m.l.Saved()
	m.saved, m.position = slices.Clone(m.missing), m.top
}

func (m *model) pass() {
	step := []uint64{1, 2, 3, 200, 3_000_000, 1 << 40}[m.IntN(6)]
	n := 1 + m.IntN(4000)
	if step > 1<<20 {
		n = 1 + m.IntN(3)
	}
	page := make([]uint64, 0, n)
	for range n {
		id := m.top + 1 + m.Uint64N(step)
		if step <= 3 {
			id = m.top + step
		}
		m.missing.add(source.Range{First: m.top + 1, Last: id - 1})
		page, m.top = append(page, id), id
	}
	m.l.See(m.top, m.now)
	m.l.Advance(m.top, page, m.now)
}

// fill publishes rows at the low end of a gap, in it, or one after the other.
func (m *model) fill(t *testing.T) {
	for range 1 + m.IntN(20) {
		if len(m.missing) == 0 {
			return
		}
		r := m.missing[m.IntN(len(m.missing))]
		if m.IntN(2) == 0 {
			r = slices.MaxFunc(m.missing, func(a, b source.Range) int { return int((a.Last-a.First)>>2) - int((b.Last-b.First)>>2) })
		}
		id := r.First + m.Uint64N(min(r.Last-r.First+1, []uint64{1, 5, 1 << 19, 1 << 62}[m.IntN(4)]))
		for range 1 + m.IntN(30) {
			if got, want := m.l.Fill(id, m.now), m.missing.remove(id); got != want {
				t.Fatalf("Fill(%d) is %t", id, got)
			}
			id += 1 + m.Uint64N(2)
		}
	}
}

func (m *model) draw(r source.Range) (ranges []source.Range) {
	for id := r.First + m.Uint64N(10); id <= r.Last && id >= r.First && len(ranges) < 2000; {
		one := source.Range{First: id, Last: min(r.Last, id+m.Uint64N(3))}
		if m.IntN(50) == 0 {
			one.Last = min(r.Last, one.Last+m.Uint64N(1<<22))
		}
		ranges = append(ranges, one)
		id = one.Last + 1 + m.Uint64N([]uint64{3, 500, 1 << 21}[m.IntN(3)])
	}
	return ranges
}

func (m *model) passRanges() {
	through := m.top + 1 + m.Uint64N([]uint64{10, 5000, 1 << 23, 1 << 42}[m.IntN(4)])
	ranges := m.draw(source.Range{First: m.top + 1, Last: through})
	m.l.Pass(through, ranges, m.now)
	next := m.top + 1
	for _, r := range ranges {
		m.missing.add(source.Range{First: next, Last: r.First - 1})
		next = r.Last + 1
	}
	m.missing.add(source.Range{First: next, Last: through})
	m.top = through
}

// fillRanges publishes ranges at or below the position, and some above it, which says nothing.
func (m *model) fillRanges() {
	r := source.Range{First: 1 + m.Uint64N(m.top+1), Last: m.top + 10}
	if len(m.missing) > 0 && m.IntN(2) == 0 {
		r.First = m.missing[m.IntN(len(m.missing))].First
	}
	ranges := m.draw(r)
	m.l.FillAll(ranges, m.now)
	var left naive
	for _, r := range m.missing {
		for _, o := range ranges {
			if o.Last < r.First || o.First > r.Last {
				continue
			}
			left.put(source.Range{First: r.First, Last: o.First - 1})
			r.First = o.Last + 1
			if r.Empty() {
				break
			}
		}
		left.put(r)
	}
	m.missing = left
}

// low holds Low against the missing ids.
func (m *model) low(t *testing.T) {
	least := m.top + 1
	if len(m.missing) > 0 {
		least = m.missing[0].First
	}
	low := m.l.Low()
	if low < least || low > m.top+1 {
		t.Fatalf("nothing is polled below %d, the lowest missing id is %d", low, least)
	}
	for _, g := range m.l.Gaps(1) {
		if low > g.Last {
			t.Fatalf("nothing is polled below %d, but %v is", low, g)
		}
	}
}

func (m *model) endPolling(t *testing.T) {
	through := m.Uint64N(m.top + 10)
	m.l.EndPolling(through)
	for _, g := range m.l.Gaps(1) {
		if g.Last <= min(through, m.top) {
			t.Fatalf("%v is polled, up to %d nothing should be", g, through)
		}
	}
}

// poll reads the hot ids and the cold ones; some of them are pending.
func (m *model) poll() {
	m.now = m.now.Add(time.Duration(m.Int64N(int64(20 * time.Minute))))
	exist := func(ranges []source.Range) (ids []uint64) {
		if len(ranges) > 0 && m.IntN(2) == 0 {
			r := ranges[m.IntN(len(ranges))]
			if m.l.Missing(r.First) {
				ids = append(ids, r.First)
			}
		}
		return ids
	}
	probe := m.l.Hot(m.now)
	m.l.Observe(ledger.Evidence{Ranges: probe.IDs, IDs: exist(probe.IDs), Now: m.now})
	for range 200 {
		ranges := m.l.Sweep(m.now)
		if len(ranges) == 0 {
			break
		}
		m.l.Swept(ledger.Evidence{Ranges: ranges, IDs: exist(ranges), Now: m.now})
	}
}

func (m *model) crash(t *testing.T) {
	m.l = mustRestore(t, m.opts, m.position, m.disk.chunks())
	m.missing, m.top = slices.Clone(m.saved), m.position
}

// move puts the position elsewhere, as a person does while the daemon is stopped.
func (m *model) move(t *testing.T) {
	m.crash(t)
	last := m.Uint64N(m.top + 10_000)
	if len(m.missing) > 0 && m.IntN(2) == 0 {
		r := m.missing[m.IntN(len(m.missing))]
		last = r.First + m.Uint64N(r.Last-r.First+1)
	}
	m.l.MoveTo(last)
	var left naive
	for _, r := range m.missing {
		left.add(source.Range{First: r.First, Last: min(r.Last, last)})
	}
	m.missing, m.top = left, last
	clear(m.disk)
	m.save(m.l.Changed())
	m.crash(t)
}

func (m *model) check(t *testing.T, did string) {
	t.Helper()
	must.OK(t, m.l.Err())
	var got naive
	for r := range m.l.Unpublished {
		got.add(r)
	}
	if !slices.Equal(got, m.missing) {
		t.Fatalf("after %s %d ranges are missing, want %d", did, len(got), len(m.missing))
	}
	total := uint64(0)
	for _, r := range m.missing {
		total += r.Last - r.First + 1
	}
	if s := m.l.Stats(m.now); s.Hot+s.Cold+s.Unpolled != total || s.Pending > s.Hot {
		t.Fatalf("after %s: %+v, want %d ids in all", did, s, total)
	}
	for range 20 {
		id := m.Uint64N(m.top + 10)
		if n := slices.Clone(m.missing); m.l.Missing(id) != n.remove(id) {
			t.Fatalf("after %s Missing(%d) is wrong", did, id)
		}
	}
}

// TestTheLedgerHasExactlyTheUnpublishedIDs compares it with a naive set, through
// gaps, their ages, wide gaps, parts that are only in the store, and kills.
func TestTheLedgerHasExactlyTheUnpublishedIDs(t *testing.T) {
	seeds := testall.Pick[uint64](2, 12)
	for seed := range seeds {
		m := newModel(t, seed)
		for range 150 {
			did := "a page"
			switch m.IntN(27) / 2 {
			case 0, 1:
				m.pass()
			case 2, 3, 4:
				did = "late rows"
				m.fill(t)
			case 5, 6:
				did = "polls"
				m.poll()
			case 7, 8:
				did = "a save"
				m.save(m.l.Changed())
			case 9:
				did = "a kill"
				m.crash(t)
			case 10:
				did = "a move"
				m.move(t)
			case 11:
				did = "ranges that the bus has above the position"
				m.passRanges()
			case 12:
				did = "ranges that the bus has below the position"
				m.fillRanges()
			case 13:
				did = "polling ends"
				m.endPolling(t)
			}
			m.check(t, did)
			m.low(t)
		}
	}
}

// TestAPartThatCannotBeReadWhenAWideRunEnds: the parts above it are to be written again, with the
// younger times of those below it.
func TestAPartThatCannotBeReadWhenAWideRunEnds(t *testing.T) {
	m := newModel(t, 1)
	const wide = 1<<20 + 10
	m.l.Advance(wide, []uint64{wide}, m.now)
	for id := uint64(wide + 2); id < wide+4_000_000; id += 2000 {
		page := make([]uint64, 0, 1000)
		for i := range uint64(1000) {
			page = append(page, id+i*2-i%3%2)
		}
		m.l.Advance(page[999], page, m.now)
	}
	m.save(m.l.Changed())
	if s := m.l.Stats(m.now); s.Bytes > m.l.SavedBytes()*4/5 {
		t.Fatalf("all parts are in memory: %+v", s)
	}
	later := m.now.Add(time.Minute)
	m.l.Fill(wide/2, later)
	if err := m.l.Err(); err != nil || !m.l.Missing(wide-1) {
		t.Fatalf("the wide gap is missing: %v", err)
	}
	m.broken = errors.New("the disk is gone")
	m.l.Fill(wide-1, later)
	if err := m.l.Err(); !errors.Is(err, m.broken) {
		t.Errorf("the error is %v", err)
	}
}
