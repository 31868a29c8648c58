package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/tap"
	"example.org/bridge/internal/tracing"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// parts are shared by all shards.
type parts struct {
	sources *Sources
	sink    sink.Sink
	// reader is the sink where that can be read back, else nil.
	reader sink.Reader
	// store is read; committer writes it. image is what the store held when it was opened.
	store     store.Store
	image     store.Image
	committer *stream.Committer
	recovery  *stream.CatchUp
	// copies is nil unless progress is kept on the bus.
	copies *buscopy.Keeper
	// generations are those of the number of shares, nil where copies is.
	generations *buscopy.Generations
	// heard returns when this process may publish a batch; nil: it may.
	heard      func(context.Context) error
	admissions *admissions
	faults     *outage.Log
	metrics    *shard.Metrics
	// tap shows published events to those who listen.
	tap    *tap.Tap
	logger *slog.Logger
	// tracer is nil unless bridge traces.
	tracer *tracing.Tracer
	queue
	carried
}

func newShards(cfg *config.Config, p *parts, streams []*appStream) ([]*shard.Shard, error) {
	var shards []*shard.Shard
	tables := countTables(cfg)
	for _, s := range streams {
		for _, table := range s.Tables {
			sh, err := newShard(cfg, s, table, p, tables)
			if err != nil {
				return nil, fmt.Errorf("stream %s: %w", s.Name, err)
			}
			s.shards[table] = sh
			shards = append(shards, sh)
		}
	}
	return shards, nil
}

// ledgersBytes is the memory that all gap ledgers share for their saved parts. One gets at most
// mostLedgerBytes, and at least leastLedgerBytes, the least that a ledger takes: above 128 shards
// the sum grows with them, to 64 MiB for 1,024.
const (
	ledgersBytes     = 8 << 20
	mostLedgerBytes  = 4 << 20
	leastLedgerBytes = 64 << 10
)

func ledgerBytes(shards int) int {
	return portion(ledgersBytes, shards, leastLedgerBytes, mostLedgerBytes)
}

func portion(all, shards, least, most int) int { return max(least, min(all/max(1, shards), most)) }

// allPublishedRows is how many of the rows published last all shards share, 24 bytes each. One
// keeps at most mostPublishedRows, and at least leastPublishedRows, because a failover would hardly
// leave one of fewer: above 6,250 shards the sum grows with them.
const (
	allPublishedRows   = 200_000
	mostPublishedRows  = 1000
	leastPublishedRows = 32
)

func publishedRows(shards int) int {
	return portion(allPublishedRows, shards, leastPublishedRows, mostPublishedRows)
}

// announcer returns a function that logs how a server hands out ids, once and after each change.
func announcer(logger *slog.Logger, format source.IDFormat) func(source.Traits) {
	var mu sync.Mutex
	var last source.Traits
	return func(t source.Traits) {
		mu.Lock()
		defer mu.Unlock()
		if t != last {
			last = t
			if format != "" {
				t.OrderWhy = "ID_FORMAT says so"
			}
			logger.Info("server and ids", "server", t.Server, "order", t.Order, "order_reason", t.OrderWhy, "sees_uncommitted", t.Evidence, "reason", t.EvidenceWhy)
		}
	}
}

// cursorsRows is how many changes all second cursors share to remember. One remembers at most
// mostCursorRows; internal/shard does not go below 4,000.
const (
	cursorsRows    = 1 << 20
	mostCursorRows = 1 << 18
)

// formats are those of package sink by those of package event.
var formats = map[event.Format]sink.Format{
	event.FormatEiffel: sink.FormatEiffel, event.FormatCloudEvents: sink.FormatCloudEvents, event.FormatRow: sink.FormatRow, event.FormatPayload: sink.FormatPayload,
}

func newShard(cfg *config.Config, s *appStream, table string, p *parts, tables int) (*shard.Shard, error) {
	encoder, err := s.encoder(cfg, table)
	if err != nil {
		return nil, err
	}
	db, _ := p.sources.of(table)
	var decided func(context.Context, uint64) error
	var deciding func(context.Context) error
	if p.copies != nil {
		deciding = p.generations.Permit
		decided = func(ctx context.Context, since uint64) error { return p.copies.Decided(ctx, s.Name, table, since) }
	}
	return shard.New(shard.Options{
		Stream: s.Name, Name: table, Kind: s.Kind,
		Source:          p.sources.Shard(s.Spec(table)),
		SourceReady:     db.from.Ready,
		SourceName:      db.Label(),
		Encoder:         encoder,
		Format:          formats[encoder.Format()],
		Route:           cfg.Route(s.Stream, table),
		Domain:          cfg.DomainID,
		Hash:            meaningHash(s.Stream),
		Sink:            p.sink,
		Whole:           cfg.Sink.ExactlyOnce,
		Reader:          p.reader,
		Store:           p.store,
		Committer:       p.committer,
		Recovery:        p.queued(admission{p.recovery, p.admissions, table}, store.Key{Stream: s.Name, Shard: table}, db),
		Deciding:        deciding,
		Heard:           p.heard,
		Decided:         decided,
		Left:            p.carried.shards[store.Key{Stream: s.Name, Shard: table}],
		Newest:          newestOf(cfg, s.Stream, table, p),
		Feed:            s.feed,
		View:            s.view,
		Movers:          s.movers,
		Shared:          s.shared(),
		Tombstones:      s.tombstones[table],
		DeadLetter:      s.DeadLetter,
		DeadLetterLimit: s.deadLetterLimit,
		Limits:          s.limits[db],
		Rate:            s.rate,
		RepublishRate:   s.republishRate,
		Lists:           s.lists,
		ListFault:       cfg.ListFault(s.Stream),
		Matcher:         s.matcher(p, table),
		Faults:          p.faults,
		Tap:             p.tap,
		Timed:           s.Created != "" || s.Modified != "",
		Metrics:         p.metrics,
		Logger:          config.StreamLogger(p.logger, s.Name).With("shard", table),
		Tracer:          p.tracer,

		Window:             s.StabilityWindow,
		Zone:               s.TimeZone.Location,
		PollInterval:       s.PollInterval,
		BatchRows:          s.BatchRows,
		Start:              shard.Start{Latest: s.Start.Latest, After: s.Start.After},
		IDOrder:            s.Order(),
		GapPolicy:          ledger.GapPolicy(s.GapPolicy),
		GapTTL:             s.GapTTL,
		LedgerBytes:        ledgerBytes(tables),
		PublishedRows:      publishedRows(tables),
		Meaning:            cfg.Meaning(s.Stream, table),
		StopOnSchemaChange: s.OnSchemaChange == "stop",
		CursorRows:         min(cursorsRows/max(1, tables), mostCursorRows),
		Announce:           s.announce[db],
		ShutdownTimeout:    cfg.ShutdownTimeout,
		Text:               config.StreamText(s.Name),
	}), nil
}

// newReconcilers makes a reconciler for each of shards, which are those of all streams as newShards
// returns them.
func newReconcilers(cfg *config.Config, p *parts, streams []*appStream, shards []*shard.Shard) []reconcile.Scheduled {
	var all []reconcile.Scheduled
	for _, s := range streams {
		for _, table := range s.Tables {
			owner := shards[len(all)]
			r := newReconciler(cfg, s, table, p, owner)
			db, _ := p.sources.of(table)
			all = append(all, reconcile.Scheduled{Reconciler: r, Interval: s.ReconcileInterval, Source: db.Label(), AtOnce: s.Order() == source.OrderNone, Paused: owner.IsPaused})
		}
	}
	return all
}

func newReconciler(cfg *config.Config, s *appStream, table string, p *parts, owner reconcile.Owner) *reconcile.Reconciler {
	o := reconcile.Options{
		Text:   config.StreamText(s.Name),
		Stream: s.Name, Shard: table, Kind: s.Kind,
		Source:     p.sources.Shard(s.Spec(table)),
		NewEncoder: func() (*event.Encoder, error) { return s.encoder(cfg, table) },
		Store:      p.store,
		Committer:  p.committer,
		Owner:      owner,
		Window:     s.StabilityWindow,
		Zone:       s.TimeZone.Location,
		MaxDeletes: float64(s.ReconcileMaxDeletes) * 100,
		StaleAfter: s.StaleAfter,
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
