package stream_test

import (
	"maps"
	"slices"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// message is what a progress takes of a message.
type message struct {
	row    uint64
	origin sink.Origin
	state  sink.State
}

// plain is the progress of tests/model, with maps, and with floor and since.
type plain struct {
	position uint64
	// missing are ids below the position that were not published, ahead ids above it that were.
	missing, ahead map[uint64]bool
	// tail is the highest row that the tail has published, low the highest low that was met.
	tail, low uint64
	// floor is the floor of the message with the stamp epoch, seq; skip is up to where ids count as
	// published.
	floor, epoch, seq, skip uint64
	since                   uint64
	started, trust          bool
}

func newPlain() *plain { return &plain{missing: map[uint64]bool{}, ahead: map[uint64]bool{}} }

func (p *plain) clone() *plain {
	c := *p
	c.missing, c.ahead = maps.Clone(p.missing), maps.Clone(p.ahead)
	return &c
}

func (p *plain) note(m message) {
	if m.state.Epoch < p.since {
		return
	}
	if m.state.Since > p.since {
		*p = *newPlain()
		p.since, p.trust = m.state.Since, true
	}
	p.started = true
	if m.row > p.position {
		p.ahead[m.row] = true
	}
	delete(p.missing, m.row)
	if m.origin == sink.FromTail {
		p.tail = max(p.tail, m.row)
	}
	if m.state.Epoch > p.epoch || m.state.Epoch == p.epoch && m.state.Seq > p.seq {
		p.epoch, p.seq = m.state.Epoch, m.state.Seq
		if p.floor != m.state.Floor {
			p.floor = m.state.Floor
			p.skip = max(p.skip, p.floor)
		}
	}
	p.low = max(p.low, m.state.Low)
}

// advance moves the position to through; what was not published below it is missing.
func (p *plain) advance(through uint64, published []uint64) {
	for _, id := range published {
		if id > p.position {
			p.ahead[id] = true
		}
		delete(p.missing, id)
	}
	for ; p.position < through; delete(p.ahead, p.position) {
		if p.position++; !p.ahead[p.position] {
			p.missing[p.position] = true
		}
	}
}

func (p *plain) skipThrough(id uint64) {
	p.position = max(p.position, id)
	for _, ids := range []map[uint64]bool{p.missing, p.ahead} {
		maps.DeleteFunc(ids, func(one uint64, _ bool) bool { return one <= id })
	}
	maps.DeleteFunc(p.ahead, func(one uint64, _ bool) bool { return one <= p.position })
}

func (p *plain) fill(late bool) {
	p.skipThrough(p.skip)
	if (late || p.trust) && p.low > 0 {
		p.skipThrough(p.low - 1)
	}
}

func (p *plain) flush(late bool) {
	p.fill(late)
	p.advance(p.tail, nil)
}

// nextLow is the low of the next message where all ids are polled.
func (p *plain) nextLow() uint64 {
	low := p.position + 1
	for id := range p.missing {
		low = min(low, id)
	}
	return low
}

func (p *plain) compare(t *testing.T, s *shard) {
	t.Helper()
	if got, want := s.missing(), slices.Sorted(maps.Keys(p.missing)); s.p.Position() != p.position || !slices.Equal(got, want) {
		t.Fatalf("position %d, missing %v, want %d, %v", s.p.Position(), got, p.position, want)
	}
	top := p.position
	for id := range p.ahead {
		top = max(top, id)
	}
	for id := range top + 10 {
		if s.p.Ahead(id) != p.ahead[id] {
			t.Fatalf("%d is ahead: %t", id, !p.ahead[id])
		}
	}
	if s.p.State().Floor != p.floor || s.p.State().Since != p.since || s.p.State().Low != p.low || s.p.State().Started != p.started {
		t.Fatalf("floor %d, since %d, low %d, started %t, want %+v", s.p.State().Floor, s.p.State().Since, s.p.State().Low, s.p.State().Started, p)
	}
}

// TestARunningShardAgreesWithMaps has the bus acknowledge batches, and facts come in between. Some
// changes the store does not take: nothing is left of them.
func TestARunningShardAgreesWithMaps(t *testing.T) {
	for seed := range uint64(300) {
		rng := newRand(seed)
		s := newShard(t, newStore())
		p, top := newPlain(), uint64(0)
		applied := p.clone()
		apply := func(change store.ShardChange, err error) {
			t.Helper()
			must.OK(t, err)
			if rng.IntN(3) > 0 {
				s.apply(t, change)
				applied = p.clone()
				return
			}
			s.reopen(t)
			p, top = applied.clone(), applied.position
		}
		for range 60 {
			switch rng.IntN(8) {
			case 0, 1, 2, 3:
				b := stream.Read{At: base, Now: base}
				for range rng.IntN(6) {
					top += 1 + rng.Uint64N(2)
					b.Through = top
					if rng.IntN(4) > 0 && !s.p.Ahead(top) {
						b.Passed = append(b.Passed, top)
					}
				}
				for id := range p.missing {
					if rng.IntN(3) == 0 {
						b.Filled = append(b.Filled, id)
					}
				}
				if got, want := s.p.NextLow(), p.nextLow(); got > want {
					t.Fatalf("seed %d: the low is %d, want %d", seed, got, want)
				}
				change, filled, err := s.p.Advance(&b)
				if filled != len(b.Filled) {
					t.Fatalf("seed %d: filled %d of %d", seed, filled, len(b.Filled))
				}
				p.fill(false)
				p.advance(b.Through, slices.Concat(b.Passed, b.Filled))
				if got, want := s.p.NextLow(), p.nextLow(); got != want {
					t.Fatalf("seed %d: the low is %d, want %d", seed, got, want)
				}
				apply(change, err)
			case 4, 5, 6:
				m := message{row: 1 + rng.Uint64N(top+8), origin: sink.FromReconcile, state: sink.State{Epoch: 1, Seq: 1}}
				s.p.Note(m.row, m.origin, &m.state)
				p.note(m)
				p.fill(false)
				apply(s.p.Fill(base))
			case 7:
				s.reopen(t)
				p, top = applied.clone(), applied.position
			}
			p.compare(t, s)
		}
	}
}
