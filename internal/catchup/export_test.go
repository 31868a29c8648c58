package catchup

import (
	"context"
	"maps"
	"slices"

	"example.org/bridge/checkpoint/store"
)

// Acknowledge adds offsets that the bus has acknowledged to this process, and of which the image
// holds what they say. A TP that is not registered is left alone.
func (c *Coverage) Acknowledge(tp uint32, r Range) {
	t := c.tps[tp]
	if t == nil {
		return
	}
	// Rule 20: also of spans that are not remembered.
	t.High = later(t.High, r.Last)
	t.add(r)
}

// Covered adds offsets that were read, and of which the image holds what they say. Offsets where
// the bus has no message count as read (rule 13). A reader that has to stop (InFlight, rule 7)
// covers what lies before that. A TP that is not registered is left alone.
func (c *Coverage) Covered(tp uint32, r Range) {
	if t := c.tps[tp]; t != nil {
		t.add(r)
	}
}

// Holes appends what is left to read, by TP and offset: all that is not covered below the highest
// span and the end. There are at most MaxSpans+1 holes a TP.
func (c *Coverage) Holes(dst []Hole) []Hole {
	for _, tp := range slices.Sorted(maps.Keys(c.tps)) {
		t := c.tps[tp]
		for h, found := t.hole(0); found; h, found = t.hole(h.To) {
			dst = append(dst, h)
		}
	}
	return dst
}

// Offsets appends what may be saved of each TP, by number.
func (c *Coverage) Offsets(dst []Offset) []Offset {
	for _, tp := range slices.Sorted(maps.Keys(c.tps)) {
		dst = append(dst, c.tps[tp].Offset)
	}
	return dst
}

// Covered applies b with the offsets that it was read from.
func (c *Committer) Covered(ctx context.Context, tp uint32, r Range, b *store.Batch) error {
	return c.commit(ctx, b, func(t *trial) error {
		t.covered(&piece{tp: tp, Range: r, high: r.Last})
		return nil
	})
}

// Holes appends what is left to read.
func (c *Committer) Holes(dst []Hole) []Hole {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.coverage.Holes(dst)
}

// Idle reports whether nothing is in flight.
func (f *InFlight) Idle() bool { return len(f.batches) == 0 }
