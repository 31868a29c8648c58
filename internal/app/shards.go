package app

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/checkpoint"
	"bridge/internal/config"
	"bridge/internal/outage"
	"bridge/internal/shard"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// parts are shared by all shards.
type parts struct {
	source  source.Source
	sink    sink.Sink
	store   checkpoint.Store
	limits  *shard.Limits
	faults  *outage.Log
	metrics *shard.Metrics
	logger  *slog.Logger
}

// newParts returns the parts that need not be opened.
func newParts(cfg *config.Config, registry prometheus.Registerer, logger *slog.Logger) parts {
	return parts{
		limits: shard.NewLimits(cfg.MaxInflightBytes, len(cfg.Streams), maxReads),
		faults: outage.New(logger), metrics: shard.NewMetrics(registry), logger: logger,
	}
}

// newShards makes the shard of every physical table.
func newShards(cfg *config.Config, p parts) ([]*shard.Shard, error) {
	var shards []*shard.Shard
	tables := 0
	for i := range cfg.Streams {
		tables += len(cfg.Streams[i].Tables)
	}
	for i := range cfg.Streams {
		one := perStream{
			limits: p.limits.Stream(), ledgerBytes: ledgerBytes(tables), publishedRows: publishedRows(tables), cursorRows: cursorRows(tables), siblings: newSiblings(cfg, &cfg.Streams[i], p.source),
			announce:        announcer(p.logger.With("stream", cfg.Streams[i].Name)),
			deadLetterLimit: shard.NewLetterLimit(cfg.Streams[i].Name, cfg.Streams[i].DeadLetterLimit),
		}
		for _, table := range cfg.Streams[i].Tables {
			sh, err := newShard(cfg, &cfg.Streams[i], table, p, one)
			if err != nil {
				return nil, fmt.Errorf("stream %s: %w", cfg.Streams[i].Name, err)
			}
			shards = append(shards, sh)
		}
	}
	return shards, nil
}

// perStream is shared by the shards of one stream.
type perStream struct {
	limits          *shard.StreamLimits
	ledgerBytes     int
	publishedRows   int
	cursorRows      int
	announce        func(source.Traits)
	siblings        *siblings
	deadLetterLimit *shard.LetterLimit
}

// ledgersBytes is the memory that all gap ledgers share for their saved parts. One gets at most
// mostLedgerBytes, and at least leastLedgerBytes, the least that a ledger takes: above 128 shards
// the sum grows with them, to 64 MiB for 1,024.
const (
	ledgersBytes     = 8 << 20
	mostLedgerBytes  = 4 << 20
	leastLedgerBytes = 64 << 10
)

// ledgerBytes returns the share of one shard of so many.
func ledgerBytes(shards int) int {
	return max(leastLedgerBytes, min(ledgersBytes/max(1, shards), mostLedgerBytes))
}

// allPublishedRows is how many of the rows published last all shards share, 24 bytes each. One
// keeps at most mostPublishedRows, and at least leastPublishedRows, because a failover would hardly
// leave one of fewer: above 6,250 shards the sum grows with them.
const (
	allPublishedRows   = 200_000
	mostPublishedRows  = 1000
	leastPublishedRows = 32
)

// publishedRows returns the share of one shard of so many.
func publishedRows(shards int) int {
	return max(leastPublishedRows, min(allPublishedRows/max(1, shards), mostPublishedRows))
}

// announcer returns a function that logs how a server hands out ids, once and after each change.
func announcer(logger *slog.Logger) func(source.Traits) {
	var mu sync.Mutex
	var last source.Traits
	return func(t source.Traits) {
		mu.Lock()
		defer mu.Unlock()
		if t != last {
			last = t
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

// cursorRows returns the share of one shard of so many.
func cursorRows(shards int) int { return min(cursorsRows/max(1, shards), mostCursorRows) }

func newShard(cfg *config.Config, s *config.Stream, table string, p parts, one perStream) (*shard.Shard, error) {
	encoder, err := cfg.Encoder(s, table)
	if err != nil {
		return nil, err
	}
	route, err := cfg.Route(s, table)
	if err != nil {
		return nil, err
	}
	others, err := one.siblings.of(table)
	if err != nil {
		return nil, err
	}
	reader := p.source.Shard(s.Spec(table))
	return shard.New(withTestTimes(shard.Options{
		Stream: s.Name, Name: table, Kind: s.Kind,
		Source:      reader,
		IDs:         reader,
		SourceReady: p.source.Ready,
		Encoder:     encoder,
		Route:       route,
		Reaches:     cfg.Reaches(s, table),
		Sink:        p.sink,
		Store:       p.store,
		DeadLetter:  s.DeadLetter,
		Letters:     one.deadLetterLimit,
		Limits:      one.limits,
		Faults:      p.faults,
		Metrics:     p.metrics,
		Logger:      p.logger.With("stream", s.Name, "shard", table),

		Window:          s.StabilityWindow,
		Zone:            s.TimeZone.Location,
		PollInterval:    s.PollInterval,
		BatchRows:       s.BatchRows,
		Start:           shard.Start{Latest: s.Start.Latest, After: s.Start.After},
		IDOrder:         s.Order(),
		GapPolicy:       ledger.GapPolicy(s.GapPolicy),
		GapTTL:          s.GapTTL,
		LedgerBytes:     one.ledgerBytes,
		PublishedRows:   one.publishedRows,
		Meaning:         cfg.Meaning(s, table),
		CursorRows:      one.cursorRows,
		Announce:        one.announce,
		Siblings:        others,
		ShutdownTimeout: cfg.ShutdownTimeout,
		Text:            config.StreamText(s.Name),
	})), nil
}
