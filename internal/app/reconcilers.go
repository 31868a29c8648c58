package app

import (
	"fmt"

	"bridge/internal/config"
	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/source"
)

// newReconcilers makes a scheduled reconciler for each of shards, which are those of all streams as
// newShards returns them.
func newReconcilers(cfg *config.Config, p parts, shards []*shard.Shard) ([]reconcile.Scheduled, error) {
	owners := make([]reconcile.Owner, len(shards))
	for i, shard := range shards {
		owners[i] = shard
	}
	return scheduled(cfg, p, owners)
}

// scheduled makes a reconciler for every physical table, in the order of streams and tables. owners
// has the same order.
func scheduled(cfg *config.Config, p parts, owners []reconcile.Owner) ([]reconcile.Scheduled, error) {
	var all []reconcile.Scheduled
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		others := newSiblings(cfg, s, p.source)
		for _, table := range s.Tables {
			r, err := newReconciler(cfg, s, table, p, owners[len(all)], others)
			if err != nil {
				return nil, fmt.Errorf("stream %s: %w", s.Name, err)
			}
			all = append(all, reconcile.Scheduled{Reconciler: r, Interval: s.ReconcileInterval, Source: cfg.Source.Addr, AtOnce: s.Order() == source.OrderNone})
		}
	}
	return all, nil
}

func newReconciler(cfg *config.Config, s *config.Stream, table string, p parts, owner reconcile.Owner, others *siblings) (*reconcile.Reconciler, error) {
	encoder, err := cfg.Encoder(s, table)
	if err != nil {
		return nil, err
	}
	siblings, err := others.of(table)
	if err != nil {
		return nil, err
	}
	return reconcile.New(reconcile.Options{
		Text:   config.StreamText(s.Name),
		Stream: s.Name, Shard: table, Kind: s.Kind,
		Source:     p.source.Shard(s.Spec(table)),
		Encoder:    encoder,
		Store:      p.store,
		Owner:      owner,
		Siblings:   siblings,
		Window:     s.StabilityWindow,
		Zone:       s.TimeZone.Location,
		MaxDeletes: float64(s.ReconcileMaxDeletes) * 100,
		Rate:       s.ReconcileRate,
		Logger:     p.logger,
	}), nil
}
