package stream

import (
	"context"

	"example.org/bridge/checkpoint/store"
)

// Coverage is the coverage of one TP.
type Coverage struct{ covered }

// Acknowledge adds offsets that the bus has acknowledged, Read those that were read: of which the
// bus has no message, too (rule 13).
func (c *Coverage) Acknowledge(r Range) {
	c.served = true
	// Rule 20: also of spans that are not remembered.
	c.High = c.High.Later(r.Last)
	c.add(r)
}

func (c *Coverage) Read(r Range) {
	c.served = true
	c.add(r)
}

// SetEnd tells the end of the TP.
func (c *Coverage) SetEnd(end uint64) { c.end = end }

// Holes returns what is left to read: all that is not covered below the highest span and the end.
func (c *Coverage) Holes() (holes []Range) {
	for h, found := c.hole(0); found; h, found = c.hole(h.To) {
		holes = append(holes, h)
	}
	return holes
}

// Spans counts the spans that are remembered of a TP.
func (c *Committer) Spans(stream, tp string) int { return len(c.snapshot(stream, tp).spans) }

// Covered applies b with the offsets that it was read from.
func (c *Committer) Covered(ctx context.Context, tp uint32, r Range, b *store.Batch) error {
	return c.apply(ctx, b, Cover{read: []Span{{TP: tp, Range: r, high: r.Last}}})
}

// Doubts counts the batches of a stream of unknown outcome that are to be read back.
func (c *Committer) Doubts(stream string) int { return len(c.doubtsOf(stream)) }

// Acknowledged applies b with the offsets of a batch that was acknowledged.
func (c *Committer) Acknowledged(ctx context.Context, first uint64, acked []Span, b *store.Batch) error {
	release, err := c.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return c.Commit(ctx, b, Cover{First: first, Acked: acked})
}
