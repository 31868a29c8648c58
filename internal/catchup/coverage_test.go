package catchup_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/catchup"
)

// messages returns the range of offsets with a message at each.
func messages(from, to uint64) catchup.Range {
	return catchup.Range{From: from, To: to, Last: anchor(to - 1)}
}

func anchor(offset uint64) store.Anchor { return store.Anchor{Offset: offset, Hash: offset + 1000} }

func TestCoverage(t *testing.T) {
	for name, tt := range map[string]struct {
		do    func(c *catchup.Coverage)
		want  catchup.Offset
		holes []catchup.Hole
	}{
		"nothing": {func(*catchup.Coverage) {}, catchup.Offset{TP: 1, Next: 10, Last: anchor(9)}, nil},
		"acknowledged without a hole": {
			func(c *catchup.Coverage) { c.Acknowledge(1, messages(10, 12)) },
			catchup.Offset{TP: 1, Next: 12, Last: anchor(11), High: anchor(11)}, nil,
		},
		"acknowledged beyond a hole": {
			func(c *catchup.Coverage) { c.Acknowledge(1, messages(12, 13)) },
			catchup.Offset{TP: 1, Next: 10, Last: anchor(9), High: anchor(12)}, []catchup.Hole{{TP: 1, From: 10, To: 12}},
		},
		"a hole that was read": {
			func(c *catchup.Coverage) {
				c.Acknowledge(1, messages(12, 13))
				c.Acknowledge(1, messages(20, 21))
				c.Covered(1, messages(10, 12))
			},
			catchup.Offset{TP: 1, Next: 13, Last: anchor(12), High: anchor(20)}, []catchup.Hole{{TP: 1, From: 13, To: 20}},
		},
		"a range without messages keeps the anchor": {
			func(c *catchup.Coverage) { c.Covered(1, catchup.Range{From: 10, To: 15}) },
			catchup.Offset{TP: 1, Next: 15, Last: anchor(9)}, nil,
		},
		"the end of an idle TP is read": {
			func(c *catchup.Coverage) { c.Ends(1, 15); c.Ends(1, 14) },
			catchup.Offset{TP: 1, Next: 10, Last: anchor(9)}, []catchup.Hole{{TP: 1, From: 10, To: 14}},
		},
		"a second hole before the first": {
			func(c *catchup.Coverage) {
				c.Acknowledge(1, messages(12, 13))
				c.Covered(1, messages(14, 15))
			},
			catchup.Offset{TP: 1, Next: 10, Last: anchor(9), High: anchor(12)}, []catchup.Hole{{TP: 1, From: 10, To: 12}, {TP: 1, From: 13, To: 14}},
		},
		"what is covered already": {
			func(c *catchup.Coverage) { c.Acknowledge(1, messages(3, 5)); c.Covered(1, messages(8, 10)) },
			catchup.Offset{TP: 1, Next: 10, Last: anchor(9), High: anchor(4)}, nil,
		},
		"another TP": {
			func(c *catchup.Coverage) {
				c.Acknowledge(2, messages(10, 11))
				c.Covered(2, messages(10, 11))
				c.Ends(2, 100)
			},
			catchup.Offset{TP: 1, Next: 10, Last: anchor(9)}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c catchup.Coverage
			c.Register(catchup.Offset{TP: 1, Next: 10, Last: anchor(9)})
			tt.do(&c)
			if got := c.Offsets(nil); len(got) != 1 || got[0] != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if got := c.Holes(nil); !reflect.DeepEqual(got, tt.holes) {
				t.Errorf("the holes are %v, want %v", got, tt.holes)
			}
			if c.Forget(1); c.Offsets(nil) != nil || c.Holes(nil) != nil {
				t.Error("a TP that was forgotten is there")
			}
		})
	}
}

func TestSpansThatAreTooManyAreRead(t *testing.T) {
	var c catchup.Coverage
	c.Register(catchup.Offset{TP: 1})
	const spans = catchup.MaxSpans + 100
	for i := range uint64(spans) {
		c.Acknowledge(1, messages(2*i+1, 2*i+2))
	}
	holes := c.Holes(nil)
	if got := c.Offsets(nil)[0]; len(holes) != catchup.MaxSpans+1 || got.Next != 0 || got.High != anchor(2*spans-1) {
		t.Fatalf("%d holes, %+v", len(holes), got)
	}
	for _, h := range holes {
		c.Covered(1, messages(h.From, h.To))
	}
	if got := c.Offsets(nil)[0]; got.Next != 2*spans || got.Last != anchor(2*spans-1) || len(c.Holes(nil)) > 0 {
		t.Fatalf("%+v, %d holes", got, len(c.Holes(nil)))
	}
}

// tp is a naive model of a TP and of what a process knows of it.
type tp struct {
	c      catchup.Coverage
	flying catchup.InFlight
	log    []stored
	// covered are the offsets that were acknowledged or read, end the highest that is known of.
	covered map[uint64]bool
	end     uint64
	high    store.Anchor
}

// stored is a message, seq 0 where it is not ours; empty where nothing is there.
type stored struct {
	seq   uint64
	empty bool
}

func (p *tp) acknowledge(t *testing.T, offset uint64) {
	if seq := p.log[offset].seq; !p.flying.Has(seq) {
		t.Fatalf("message %d is not in flight", seq)
	}
	p.c.Acknowledge(1, messages(offset, offset+1))
	p.flying.Remove(p.log[offset].seq)
	p.covered[offset], p.end = true, max(p.end, offset+1)
	if offset+1000 > p.high.Hash {
		p.high = anchor(offset)
	}
}

// read reads a hole as far as it may.
func (p *tp) read(h catchup.Hole) {
	r := catchup.Range{From: h.From, To: h.From}
	for ; r.To < h.To; r.To++ {
		m := p.log[r.To]
		if m.seq > 0 && p.flying.Has(m.seq) {
			break
		}
		if p.covered[r.To] = true; !m.empty {
			r.Last = anchor(r.To)
		}
	}
	p.c.Covered(1, r)
}

// check compares coverage with the set of offsets.
func (p *tp) check(t *testing.T) {
	t.Helper()
	want := catchup.Offset{TP: 1, High: p.high}
	for ; p.covered[want.Next]; want.Next++ {
		if !p.log[want.Next].empty {
			want.Last = anchor(want.Next)
		}
	}
	if got := p.c.Offsets(nil)[0]; got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	holes := p.c.Holes(nil)
	for i, h := range holes {
		if h.From >= h.To || i > 0 && h.From <= holes[i-1].To {
			t.Fatalf("holes that are empty or touch: %v", holes)
		}
	}
	for offset := range uint64(len(p.log)) {
		in := slices.ContainsFunc(holes, func(h catchup.Hole) bool { return offset >= h.From && offset < h.To })
		if want := offset < p.end && !p.covered[offset]; in != want {
			t.Fatalf("offset %d in a hole: %v, want %v; %v", offset, in, want, holes)
		}
		if seq := p.log[offset].seq; p.flying.Has(seq) && p.covered[offset] {
			t.Fatalf("offset %d is covered and in flight", offset)
		}
	}
}

func TestCoverageIsThatOfASetOfOffsets(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := &tp{covered: map[uint64]bool{}}
		p.c.Register(catchup.Offset{TP: 1})
		for seq := range uint64(120) {
			switch rng.IntN(6) {
			case 0, 1:
				p.flying.Add(seq+1, 1)
				p.log = append(p.log, stored{seq: seq + 1})
			case 2:
				p.log = append(p.log, stored{empty: rng.IntN(2) == 0})
			case 3:
				if len(p.log) > 0 {
					if o := rng.IntN(len(p.log)); p.flying.Has(p.log[o].seq) {
						p.acknowledge(t, uint64(o))
					}
				}
			case 4:
				if holes := p.c.Holes(nil); len(holes) > 0 {
					p.read(holes[rng.IntN(len(holes))])
				}
			case 5:
				p.c.Ends(1, uint64(len(p.log)))
				p.end = uint64(len(p.log))
			}
			p.check(t)
		}
		// Of what is in flight the one half is acknowledged, the other cancelled and read.
		for o, m := range p.log {
			if p.flying.Has(m.seq) && o%2 == 0 {
				p.acknowledge(t, uint64(o))
			}
			p.flying.Remove(m.seq)
		}
		p.c.Ends(1, uint64(len(p.log)))
		p.end = uint64(len(p.log))
		for _, h := range p.c.Holes(nil) {
			p.read(h)
		}
		p.check(t)
		if got := p.c.Offsets(nil)[0].Next; !p.flying.Idle() || got != p.end {
			t.Fatalf("covered up to %d of %d", got, p.end)
		}
	}
}

func TestABatchIsInFlightUntilItIsRemoved(t *testing.T) {
	var f catchup.InFlight
	f.Add(5, 3)
	f.Add(8, 1)
	f.Remove(8)
	var has []uint64
	for seq := range uint64(20) {
		if f.Has(seq) {
			has = append(has, seq)
		}
	}
	if !slices.Equal(has, []uint64{5, 6, 7}) || f.Idle() {
		t.Errorf("in flight: %v", has)
	}
}

func TestTheNumberOfAnEpoch(t *testing.T) {
	now := time.UnixMilli(1_760_000_000_123)
	for _, c := range []struct {
		above uint64
		now   time.Time
		want  uint64
	}{
		{0, now, 1_760_000_000_123},
		{1_760_000_000_122, now, 1_760_000_000_123},
		{1_760_000_000_123, now, 1_760_000_000_124},
		{1_900_000_000_000, now, 1_900_000_000_001},
		{0, time.Time{}, 1},
		{7, time.Unix(-1, 0), 8},
	} {
		if got := catchup.NewEpoch(c.above, c.now).Number(); got != c.want {
			t.Errorf("above %d at %v: %d, want %d", c.above, c.now, got, c.want)
		}
	}
}

func TestSeqsOfAnEpochAreHandedOutOnce(t *testing.T) {
	e := catchup.NewEpoch(0, time.Now())
	if first, second := e.Next(3), e.Next(1); first != 1 || second != 4 {
		t.Fatalf("the first batches begin at %d and %d, want 1 and 4", first, second)
	}
	const goroutines, batches = 8, 1000
	firsts := make([][]uint64, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range batches {
				firsts[g] = append(firsts[g], e.Next(g+1))
			}
		})
	}
	wg.Wait()
	var all []uint64
	for g := range firsts {
		for _, first := range firsts[g] {
			for i := range uint64(g + 1) {
				all = append(all, first+i)
			}
		}
	}
	slices.Sort(all)
	for i, seq := range all {
		if seq != uint64(i)+5 {
			t.Fatalf("seq %d is %d", i+5, seq)
		}
	}
}

func TestAHigherEpochSupersedes(t *testing.T) {
	e := catchup.NewEpoch(99, time.Time{})
	for _, met := range []uint64{0, 99, 100} {
		if err := e.Met(met); err != nil {
			t.Errorf("epoch 100 met %d: %v", met, err)
		}
	}
	err := e.Met(101)
	if !errors.Is(err, catchup.ErrSuperseded) || !strings.Contains(err.Error(), "101") || !strings.Contains(err.Error(), "100") {
		t.Errorf("epoch 100 met 101: %v", err)
	}
}
