package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"

	"bridge/checkpoint/store"
	"bridge/reconcile"
	"bridge/source"
)

// inBubble runs a test under a clock of its own, so that no wait takes time.
func inBubble(test func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

// hooked calls a function before every read.
type hooked struct {
	source.Shard
	before func()
}

func (h hooked) Read(ctx context.Context, q source.Query, p *source.Page) error {
	h.before()
	return h.Shard.Read(ctx, q, p)
}

// cut is a committer whose saves of runs fail from the given one on: before or after they took
// effect.
type cut struct {
	reconcile.Committer
	saves *int
	at    int
	after bool
}

func (c cut) Apply(ctx context.Context, b *store.Batch) error {
	*c.saves++
	if *c.saves < c.at {
		return c.Committer.Apply(ctx, b)
	}
	if c.after && *c.saves == c.at {
		if err := c.Committer.Apply(ctx, b); err != nil {
			return err
		}
	}
	return store.ErrClosed
}
