package app

import (
	"bridge/event"
	"bridge/internal/config"
	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/source"
)

// newReconcilers makes a scheduled reconciler for each of shards, which are those of all streams as
// newShards returns them.
func newReconcilers(cfg *config.Config, p *parts, streams []*stream, shards []*shard.Shard) []reconcile.Scheduled {
	owners := make([]reconcile.Owner, len(shards))
	for i, shard := range shards {
		owners[i] = shard
	}
	return scheduled(cfg, p, streams, owners)
}

// scheduled makes a reconciler for every physical table, in the order of streams and tables. owners
// has the same order.
func scheduled(cfg *config.Config, p *parts, streams []*stream, owners []reconcile.Owner) []reconcile.Scheduled {
	var all []reconcile.Scheduled
	for _, s := range streams {
		for _, table := range s.Tables {
			r := newReconciler(cfg, s, table, p, owners[len(all)])
			all = append(all, reconcile.Scheduled{Reconciler: r, Interval: s.ReconcileInterval, Source: cfg.Source.Addr, AtOnce: s.Order() == source.OrderNone})
		}
	}
	return all
}

func newReconciler(cfg *config.Config, s *stream, table string, p *parts, owner reconcile.Owner) *reconcile.Reconciler {
	o := reconcile.Options{
		Text:   config.StreamText(s.Name),
		Stream: s.Name, Shard: table, Kind: s.Kind,
		Source:     p.source.Shard(s.Spec(table)),
		NewEncoder: func() (*event.Encoder, error) { return s.encoder(cfg, table) },
		Store:      p.store,
		Committer:  p.committer,
		Owner:      owner,
		Window:     s.StabilityWindow,
		Zone:       s.TimeZone.Location,
		MaxDeletes: float64(s.ReconcileMaxDeletes) * 100,
		Rate:       s.ReconcileRate,
		Logger:     p.logger,
	}
	if s.view != nil {
		o.View = s.view
	}
	if s.shared() && s.keys != nil {
		o.ReadKeys = s.keys.Read
	}
	return reconcile.New(o)
}
