package stream_test

import (
	"maps"
	"slices"
	"testing"

	"example.org/bridge/sink"
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

func (p *plain) skipThrough(id uint64) {
	p.position = max(p.position, id)
	for _, ids := range []map[uint64]bool{p.missing, p.ahead} {
		maps.DeleteFunc(ids, func(one uint64, _ bool) bool { return one <= id })
	}
	maps.DeleteFunc(p.ahead, func(one uint64, _ bool) bool { return one <= p.position })
}

func (p *plain) flush(late bool) {
	p.skipThrough(p.skip)
	if (late || p.trust) && p.low > 0 {
		p.skipThrough(p.low - 1)
	}
	for ; p.position < p.tail; delete(p.ahead, p.position) {
		if p.position++; !p.ahead[p.position] {
			p.missing[p.position] = true
		}
	}
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
