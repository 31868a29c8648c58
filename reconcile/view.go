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

// fill reads the next entries. Two entities may have the same row, where its key was changed in place: they stay together.
func (c *viewCursor) fill(ctx context.Context) error {
	r := c.reconciler
	for limit := viewRows; ; limit *= 2 {
		err := r.retry(ctx, "read the view", func() (err error) {
			c.entries, err = r.opts.Store.ByRow(ctx, r.key(), c.after, limit, c.entries[:0])
			return err
		})
		if err != nil {
			return err
		}
		c.next = 0
		n := len(c.entries)
		if n < limit {
			c.ended = true
			return nil
		}
		last := c.entries[n-1].Row
		for n > 0 && c.entries[n-1].Row == last {
			n--
		}
		if n > 0 {
			c.entries, c.after = c.entries[:n], last-1
			return nil
		}
	}
}
