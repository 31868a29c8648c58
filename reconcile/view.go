package reconcile

import (
	"context"

	"bridge/checkpoint"
)

// viewCursor walks the live and soft-deleted entities of a view in the order of their rows. What is read may be as old as
// viewRows entries: at worst it nominates what the owner has published since.
type viewCursor struct {
	reconciler *Reconciler
	entries    []checkpoint.Entity
	next       int
	after      uint64
	ended      bool
}

// peek returns the entry at the cursor, nil at the end; advance moves on. The entry is valid until the next peek.
func (c *viewCursor) peek(ctx context.Context) (*checkpoint.Entity, error) {
	if c.next == len(c.entries) && !c.ended {
		if err := c.fill(ctx); err != nil {
			return nil, err
		}
	}
	if c.next == len(c.entries) {
		return nil, nil
	}
	return &c.entries[c.next], nil
}

func (c *viewCursor) advance() { c.next++ }

// fill reads the next entries. All that have the same row come together.
func (c *viewCursor) fill(ctx context.Context) error {
	r := c.reconciler
	err := r.retry(ctx, "read the view", func() (err error) {
		c.entries, err = r.opts.Store.ByRow(ctx, r.key(), c.after, viewRows, c.entries[:0])
		return err
	})
	if err != nil {
		return err
	}
	c.next, c.ended = 0, len(c.entries) < viewRows
	if !c.ended {
		c.after = c.entries[len(c.entries)-1].Row
	}
	return nil
}
