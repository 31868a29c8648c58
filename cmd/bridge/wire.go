package main

import (
	"fmt"
	"log/slog"
	"os"
	"sync"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/internal/outage"
	"bridge/internal/pipeline"
	"bridge/sink"
	"bridge/sink/embedded"
	"bridge/sink/jetstream"
	"bridge/sink/kafka"
	"bridge/sink/stdout"
	"bridge/source"
	"bridge/source/mysql"
	"bridge/source/sqlite"
)

const (
	// maxReads bounds the reads of all tails that run at the same time, each on a connection of its own.
	maxReads = 8
	// scanReads is how many connections reconcile has besides, so that it takes none from the tails: one reads ahead, one looks
	// into the other tables of the stream.
	scanReads = 2
)

func openSource(cfg *Config, logger *slog.Logger) (source.Source, error) {
	switch cfg.Source.Scheme {
	case "mysql":
		options := cfg.Source.MySQL
		options.MaxConns, options.Logger = maxReads+scanReads, logger
		return mysql.Open(options)
	case "sqlite":
		options := cfg.Source.SQLite
		options.MaxConns, options.Logger = maxReads+scanReads, logger
		return sqlite.Open(options)
	default:
		return nil, fmt.Errorf("no source for the scheme %q", cfg.Source.Scheme)
	}
}

func openSink(cfg *Config, logger *slog.Logger, fault sink.Fault) (sink.Sink, error) {
	switch cfg.Sink.Scheme {
	case "kafka":
		return kafka.Open(kafkaOptions(cfg, logger, fault))
	case "nats":
		return jetstream.Open(natsOptions(cfg, logger, fault))
	case "embedded":
		s, err := openEmbedded(cfg, logger, fault)
		if err != nil {
			// Not s: a nil pointer in an interface is not nil.
			return nil, err
		}
		return s, nil
	case "stdout":
		return stdout.Open(stdout.Options{Writer: os.Stdout, Logger: logger, Fault: fault})
	default:
		return nil, fmt.Errorf("no sink for the scheme %q", cfg.Sink.Scheme)
	}
}

// openEmbedded starts a NATS server inside the process and the sink on it.
func openEmbedded(cfg *Config, logger *slog.Logger, fault sink.Fault) (*embedded.Sink, error) {
	e := cfg.Sink.Embedded
	s, err := embedded.Open(embeddedOptions(cfg, logger),
		func(server embedded.Conns) (sink.Sink, error) {
			return jetstream.Open(jetstream.Options{
				InProcess: server, Stream: e.Stream, CreateStream: true, Subjects: cfg.subjects(), Published: cfg.published(), Logger: logger, Fault: fault,
			})
		})
	if err != nil {
		return nil, err
	}
	logger.Info("NATS runs inside the process", "data", e.Dir, "stream", e.Stream, "url", embeddedURL(s))
	return s, nil
}

func embeddedOptions(cfg *Config, logger *slog.Logger) embedded.Options {
	e := cfg.Sink.Embedded
	return embedded.Options{Dir: e.Dir, Listen: e.Listen, Stream: e.Stream, Subjects: cfg.subjects(), Logger: logger}
}

// embeddedURL is where others reach the server, empty where they do not.
func embeddedURL(s *embedded.Sink) string {
	if addr := s.Addr(); addr != nil {
		return "nats://" + addr.String()
	}
	return ""
}

func kafkaOptions(cfg *Config, logger *slog.Logger, fault sink.Fault) kafka.Options {
	k := cfg.Sink.Kafka
	o := kafka.Options{
		Brokers:     k.Brokers,
		Compression: kafka.Compression(k.Compression),
		Topics:      cfg.topics(),
		Logger:      logger,
		Fault:       fault,
	}
	if k.UseTLS {
		o.TLS = k.TLS.config()
	}
	if k.Mechanism != "" {
		o.SASL = &kafka.SASL{Mechanism: k.Mechanism, Username: k.Username, Password: k.Password}
	}
	return o
}

func natsOptions(cfg *Config, logger *slog.Logger, fault sink.Fault) jetstream.Options {
	n := cfg.Sink.NATS
	o := jetstream.Options{
		Stream:       n.Stream,
		CreateStream: n.Create,
		Subjects:     cfg.subjects(),
		Published:    cfg.published(),
		Password:     n.Login,
		Creds:        n.Creds,
		NkeySeed:     n.NKey,
		Logger:       logger,
		Fault:        fault,
	}
	for _, server := range n.Servers {
		o.URLs = append(o.URLs, "nats://"+server)
	}
	if n.TLS.given() {
		o.TLS = n.TLS.config()
	}
	return o
}

// parts are what all shards share.
type parts struct {
	source  source.Source
	sink    sink.Sink
	store   checkpoint.Store
	limits  *pipeline.Limits
	faults  *outage.Log
	metrics *pipeline.Metrics
	logger  *slog.Logger
}

// newShards makes the pipeline of every physical table.
func newShards(cfg *Config, p parts) ([]*pipeline.Shard, error) {
	var shards []*pipeline.Shard
	tables := 0
	for i := range cfg.Streams {
		tables += len(cfg.Streams[i].Tables)
	}
	for i := range cfg.Streams {
		one := perStream{
			limits: p.limits.Stream(), ledgerBytes: ledgerBytes(tables), siblings: newSiblings(cfg, &cfg.Streams[i], p.source),
			announce: announcer(p.logger.With("stream", cfg.Streams[i].Name)),
			letters:  pipeline.NewLetterLimit(cfg.Streams[i].Name, cfg.Streams[i].DeadLetterLimit),
		}
		for _, table := range cfg.Streams[i].Tables {
			shard, err := newShard(cfg, &cfg.Streams[i], table, p, one)
			if err != nil {
				return nil, fmt.Errorf("stream %s: %w", cfg.Streams[i].Name, err)
			}
			shards = append(shards, shard)
		}
	}
	return shards, nil
}

// perStream is what the shards of one stream share.
type perStream struct {
	limits      *pipeline.StreamLimits
	ledgerBytes int
	announce    func(source.Traits)
	siblings    *siblings
	letters     *pipeline.LetterLimit
}

// ledgersBytes bounds the memory of all gap ledgers together, mostLedgerBytes that of one.
const (
	ledgersBytes    = 48 << 20
	mostLedgerBytes = 16 << 20
)

// ledgerBytes returns the part of one shard of so many.
func ledgerBytes(shards int) int { return min(ledgersBytes/max(1, shards), mostLedgerBytes) }

// announcer returns a function that logs what a server says about its ids, once, and again when it says something else.
func announcer(logger *slog.Logger) func(source.Traits) {
	var mu sync.Mutex
	var last source.Traits
	return func(t source.Traits) {
		mu.Lock()
		defer mu.Unlock()
		if t != last {
			last = t
			logger.Info("how ids are handed out", "order", t.Order, "because", t.OrderWhy, "uncommitted rows are seen", t.Evidence, "for", t.EvidenceWhy)
		}
	}
}

func newShard(cfg *Config, s *Stream, table string, p parts, one perStream) (*pipeline.Shard, error) {
	encoder, err := cfg.encoder(s, table)
	if err != nil {
		return nil, err
	}
	route, err := cfg.route(s, table)
	if err != nil {
		return nil, err
	}
	others, err := one.siblings.of(table)
	if err != nil {
		return nil, err
	}
	reader := p.source.Shard(s.spec(table))
	return pipeline.New(pipeline.Options{
		Stream: s.Name, Name: table, Kind: s.Kind,
		Source:      reader,
		IDs:         reader,
		SourceReady: p.source.Ready,
		Encoder:     encoder,
		Route:       route,
		Reaches:     cfg.reaches(s, table),
		Sink:        p.sink,
		Store:       p.store,
		DeadLetter:  s.DeadLetter,
		Letters:     one.letters,
		Limits:      one.limits,
		Faults:      p.faults,
		Metrics:     p.metrics,
		Logger:      p.logger.With("stream", s.Name, "shard", table),

		Window:          s.StabilityWindow,
		Zone:            s.TimeZone.location,
		PollInterval:    s.PollInterval,
		BatchRows:       s.BatchRows,
		Start:           pipeline.Start{Latest: s.Start.latest, After: s.Start.after},
		IDOrder:         s.idOrder(),
		GapPolicy:       source.GapPolicy(s.GapPolicy),
		GapTTL:          s.GapTTL,
		LedgerBytes:     one.ledgerBytes,
		Announce:        one.announce,
		Siblings:        others,
		ShutdownTimeout: cfg.ShutdownTimeout,
	}), nil
}

// idOrder is empty where the server is to be asked.
func (s *Stream) idOrder() source.IDOrder {
	if s.IDOrder == "auto" {
		return ""
	}
	return source.IDOrder(s.IDOrder)
}

// encoder returns the encoder of the events of a table.
func (c *Config) encoder(s *Stream, table string) (*event.Encoder, error) {
	database, name := c.physical(table)
	return event.NewEncoder(event.Options{
		Stream: s.Name, Shard: table, Kind: s.Kind, Stem: s.Event, Names: s.EventNames, Fields: s.Fields,
		Domain: c.DomainID, Source: database, Table: name,
		Zone: s.TimeZone.location, BadValue: event.BadValue(s.OnBadValue),
	})
}

// spec says what to read of a table.
func (s *Stream) spec(table string) source.Spec {
	spec := source.Spec{
		Table: table, ID: s.ID, Key: s.Key, Created: s.Created, Modified: s.Modified, Deleted: s.Deleted,
		// The rows of a release stream are facts: several may share a key.
		UniqueKey: s.Kind == event.Capability,
	}
	for _, f := range s.Fields {
		spec.Fields = append(spec.Fields, f.Column)
	}
	return spec
}
