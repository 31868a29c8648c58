package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/testall"
)

// scenario is one way to run writers against an owner.
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
