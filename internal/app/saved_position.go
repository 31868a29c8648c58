package app

import (
	"context"
	"errors"
	"fmt"
	"math"

	"bridge/checkpoint/store"
	"bridge/internal/config"
	"bridge/reconcile"
	"bridge/source"
)

// savedPosition is the owner of a shard in a dry run without a tail. Its reach is the position in
// the checkpoint.
type savedPosition struct{ id uint64 }

var _ reconcile.Owner = (*savedPosition)(nil)

// load reads the saved position of the shard with the status s. A shard whose ids have no order is
// compared as a whole.
func (o *savedPosition) load(ctx context.Context, cfg *config.Config, p *parts, s reconcile.Status) error {
	saved, found, err := p.store.Progress(ctx, store.Key{Stream: s.Stream, Shard: s.Shard})
	if err != nil {
		return err
	}
	if !found || !saved.Started {
		return fmt.Errorf("it has no checkpoint: nothing of the table was published yet, and bridge run begins it where %sSTART says", config.StreamPrefix(s.Stream))
	}
	stream := cfg.Stream(s.Stream)
	order := stream.Order()
	if order == "" {
		traits, err := p.source.Shard(stream.Spec(s.Shard)).Traits(ctx)
		if err != nil {
			return fmt.Errorf("ask how ids are handed out: %w", err)
		}
		order = traits.Order
	}
	if o.id = saved.Position; order == source.OrderNone {
		o.id = math.MaxUint64
	}
	return nil
}

// Reach implements reconcile.Owner.
func (o *savedPosition) Reach() (uint64, bool) { return o.id, true }

// Nominate implements reconcile.Owner. A dry run nominates nothing.
func (o *savedPosition) Nominate(context.Context, reconcile.Nomination) (reconcile.Verdict, error) {
	return reconcile.Verdict{}, errors.New("a dry run publishes nothing")
}

// ReconcileDue implements reconcile.Owner. A dry run follows no wish.
func (o *savedPosition) ReconcileDue() (uint64, bool) { return 0, false }

// Reconciled implements reconcile.Owner.
func (o *savedPosition) Reconciled(context.Context, uint64) error { return nil }
