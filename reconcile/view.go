package reconcile

import (
	"context"

	"bridge/checkpoint/store"
)

// viewCursor walks the entities of a shard's view that are not absent, in the order of their rows.
// It reads ahead, so an entry may be older than the last publish; at worst it nominates a row for
// nothing.
type viewCursor struct {
	reconciler *Reconciler
	entries    []store.Change
	next       int
	// limit is how many entries are read next.
	limit int
	after uint64
	ended bool
}

// peek returns the entry at the cursor, nil at the end; advance moves on. The entry is valid until
// the next peek.
func (c *viewCursor) peek(ctx context.Context) (*store.Change, error) {
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

// fill reads the next entries. Entries of the same row come together.
func (c *viewCursor) fill(ctx context.Context) error {
	r := c.reconciler
	limit := max(c.limit, minViewRows)
	err := r.retry(ctx, "read the view", func() (err error) {
		clear(c.entries)
		c.entries, err = r.opts.View.ByRow(ctx, r.opts.Shard, c.after, limit, c.entries[:0])
		return err
	})
	if err != nil {
		return err
	}
	c.next, c.ended = 0, len(c.entries) < limit
	if c.ended {
		return nil
	}
	c.after = c.entries[len(c.entries)-1].Entry.Row
	// Invariant 7: the number of entries that fit, if they are like the last ones.
	size := len(c.entries) * entryBytes
	for i := range c.entries {
		size += len(c.entries[i].Entity)
	}
	c.limit = min(viewBytes*len(c.entries)/size, 2*limit, maxViewRows)
	return nil
}
