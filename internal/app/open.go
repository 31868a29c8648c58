package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/verify"
	"example.org/bridge/internal/verify/bus"
	"example.org/bridge/sink"
	"example.org/bridge/sink/embedded"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/kafka/mskiam"
	"example.org/bridge/sink/stdout"
	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/source/sqlite"
)

const (
	// maxReads bounds the reads of all tails at the same time, each on its own connection.
	maxReads = 8
	// scanReads is how many further connections reconcile has, and keyReads those for reads by key,
	// so that they take none from the tails.
	scanReads = 1
	keyReads  = 2
)

// mostConns returns how many connections to the source there are at most.
func mostConns(cfg *config.Config) int {
	n := maxReads + scanReads + keyReads
	if cfg.Serve {
		n += serveReads
	}
	return n
}

// OpenSource opens the source of a configuration. It connects at the first read.
func OpenSource(cfg *config.Config, logger *slog.Logger) (source.Source, error) {
	switch cfg.Source.Scheme {
	case "mysql":
		options := cfg.Source.MySQL
		options.MaxConns, options.Logger = mostConns(cfg), logger
		return mysql.Open(options)
	case "sqlite":
		options := cfg.Source.SQLite
		options.MaxConns, options.Logger = mostConns(cfg), logger
		return sqlite.Open(options)
	default:
		return nil, fmt.Errorf("no source for the scheme %q", cfg.Source.Scheme)
	}
}

// hooks are what a sink calls.
type hooks struct {
	fault   sink.Fault
	session func(tp string)
}

func openSink(cfg *config.Config, logger *slog.Logger, h hooks) (sink.Sink, error) {
	switch cfg.Sink.Scheme {
	case "kafka":
		return kafka.Open(kafkaOptions(cfg, logger, h))
	case "nats":
		return jetstream.Open(natsOptions(cfg, logger, h))
	case "embedded":
		s, err := openEmbedded(cfg, logger, h)
		if err != nil {
			// Not s: an interface with a nil pointer is not nil.
			return nil, err
		}
		return s, nil
	case "stdout":
		return stdout.Open(stdout.Options{Writer: os.Stdout, Logger: logger, Fault: h.fault})
	default:
		return nil, fmt.Errorf("no sink for the scheme %q", cfg.Sink.Scheme)
	}
}

// openEmbedded starts a NATS server inside the process and the sink on it.
func openEmbedded(cfg *config.Config, logger *slog.Logger, h hooks) (*embedded.Sink, error) {
	e := cfg.Sink.Embedded
	s, err := embedded.Open(embeddedOptions(cfg, logger),
		func(server embedded.Conns) (sink.Sink, error) {
			return jetstream.Open(jetstream.Options{
				InProcess: server, Stream: e.Stream, CreateStream: true, Keeps: keeping(&e.Keeps), Subjects: cfg.Subjects(), Published: cfg.Published(), Readable: cfg.Readable(), Logger: logger,
				Fault: h.fault, Session: h.session,
			})
		})
	if err != nil {
		return nil, err
	}
	args := []any{"data", e.Dir, "stream", e.Stream}
	if url := embeddedURL(s); url != "" {
		args = append(args, "url", url)
	}
	logger.Info("NATS runs inside the process", args...)
	return s, nil
}

func embeddedOptions(cfg *config.Config, logger *slog.Logger) embedded.Options {
	e := cfg.Sink.Embedded
	return embedded.Options{Dir: e.Dir, Listen: e.Listen, Stream: e.Stream, Subjects: cfg.Subjects(), Logger: logger}
}

// embeddedURL returns the URL of the server, empty if it has no listener.
func embeddedURL(s *embedded.Sink) string {
	if addr := s.Addr(); addr != nil {
		return "nats://" + addr.String()
	}
	return ""
}

// kafkaOptions returns the options of all that connects to brokers.
func kafkaOptions(cfg *config.Config, logger *slog.Logger, h hooks) kafka.Options {
	k := cfg.Sink.Kafka
	o := kafka.Options{
		Brokers:     k.Brokers,
		Compression: kafka.Compression(k.Compression),
		Topics:      cfg.Topics(),
		// The subjects to publish to are known without a connection.
		Uncompactable: cfg.Uncompactable(),
		Asked:         cfg.AskedTopics(),
		Logger:        logger,
		Fault:         h.fault,
		Session:       h.session,
	}
	if cfg.Sink.ExactlyOnce {
		o.TransactionalID, o.TransactionInterval = k.TransactionalID, k.TransactionInterval
	}
	if k.UseTLS {
		o.TLS = k.TLS.Config()
	}
	o.SASL = kafkaLogin(&k)
	return o
}

// kafkaLogin returns how to log in, nil where nobody does.
func kafkaLogin(k *config.Kafka) *kafka.SASL {
	switch k.Mechanism {
	case "":
		return nil
	case config.AWSMSKIAM:
		return &kafka.SASL{Mechanism: k.Mechanism, Custom: mskiam.New(mskiam.Options{Region: k.AWSRegion})}
	default:
		return &kafka.SASL{Mechanism: k.Mechanism, Username: k.Username, Password: k.Password, Token: k.Token}
	}
}

// keeping returns how a stream that is created keeps messages.
func keeping(k *config.Keeping) jetstream.Keeping {
	return jetstream.Keeping{Replicas: k.Replicas, Memory: k.Memory, File: k.File, MaxAge: k.MaxAge, MaxBytes: k.MaxBytes, Duplicates: k.DuplicateWindow}
}

func natsOptions(cfg *config.Config, logger *slog.Logger, h hooks) jetstream.Options {
	n := cfg.Sink.NATS
	o := jetstream.Options{
		Stream:       n.Stream,
		CreateStream: n.Create,
		Keeps:        keeping(&n.Keeps),
		Subjects:     cfg.Subjects(),
		Published:    cfg.Published(),
		Readable:     cfg.Readable(),
		Origin:       jetstream.Origin{Domain: cfg.DomainID, Streams: cfg.StreamNames()},
		Password:     n.Login,
		Creds:        n.Creds,
		NkeySeed:     n.NKey,
		Logger:       logger,
		Fault:        h.fault,
		Session:      h.session,
	}
	if cfg.Sink.ExactlyOnce {
		o.Claim = n.Claim
	}
	for _, server := range n.Servers {
		o.URLs = append(o.URLs, "nats://"+server)
	}
	if n.TLS.Given() || n.HandshakeFirst {
		o.TLS = n.TLS.Config()
	}
	o.HandshakeFirst, o.JetStreamDomain = n.HandshakeFirst, n.Domain
	return o
}

// Reading names what a command reads from the bus: whole topics, or subjects.
type Reading struct {
	Topics, Subjects []string
	// Command is the name of the command in errors.
	Command string
	// Logger is told what is waited for. Nil discards it.
	Logger *slog.Logger
}

// giveUpAfter is how long a command waits for a bus that does not answer.
const giveUpAfter = 30 * time.Second

// OpenReading opens the bus of cfg for reading, with connections of its own.
func OpenReading(ctx context.Context, cfg *config.Config, what Reading) (verify.Bus, error) {
	switch cfg.Sink.Scheme {
	case "kafka":
		return openReadingKafka(ctx, cfg, what)
	case "nats":
		return openReadingNATS(ctx, natsOptions(cfg, what.Logger, hooks{}), what)
	case "embedded":
		return openReadingEmbedded(ctx, cfg, what)
	default:
		return nil, fmt.Errorf("what bridge has printed cannot be read back: %s needs a sink that keeps its messages, as kafka: nats: and embedded: do", what.Command)
	}
}

func openReadingKafka(ctx context.Context, cfg *config.Config, what Reading) (verify.Bus, error) {
	o := kafkaOptions(cfg, cmp.Or(what.Logger, slog.New(slog.DiscardHandler)), hooks{})
	o.ClientID, o.Topics, o.GiveUpAfter = "bridge-verify", what.Topics, giveUpAfter
	reader, err := kafka.Open(o)
	if err != nil {
		return nil, err
	}
	return bus.Open(ctx, bus.Options{Reader: reader, Topics: what.Topics})
}

// openReadingNATS reads what the options name the streams of.
func openReadingNATS(ctx context.Context, o jetstream.Options, what Reading) (verify.Bus, error) {
	o.Name, o.GiveUpAfter, o.CreateStream = "bridge verify", giveUpAfter, false
	o.Published, o.Readable = what.Subjects, what.Subjects
	reader, err := jetstream.Open(o)
	if err != nil {
		return nil, err
	}
	return bus.Open(ctx, bus.Options{Reader: reader, Subjects: what.Subjects, Stream: o.Stream})
}

// embeddedBus reads from a server that was started for it.
type embeddedBus struct {
	verify.Bus
	server *embedded.Sink
}

func (b *embeddedBus) Close() error { return errors.Join(b.Bus.Close(), b.server.Close()) }

// unusedSink is the sink of a server that is only read.
type unusedSink struct{ sink.Sink }

func (unusedSink) Close() error { return nil }

// openReadingEmbedded reads from a running server through its listener, or starts a server if none
// runs.
func openReadingEmbedded(ctx context.Context, cfg *config.Config, what Reading) (verify.Bus, error) {
	e := cfg.Sink.Embedded
	o := jetstream.Options{Stream: e.Stream}
	if e.Listen != "" {
		o.URLs = []string{"nats://" + e.Listen}
		quick, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if running, err := openReadingNATS(quick, o, what); err == nil {
			return running, nil
		}
	}
	if _, err := os.Stat(e.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no folder %s: bridge has published nothing there yet", e.Dir)
	}
	// Without a stream and a listener, nothing is changed and nobody else can connect.
	server, err := embedded.Open(embedded.Options{Dir: e.Dir, Logger: slog.New(slog.DiscardHandler)}, func(conns embedded.Conns) (sink.Sink, error) {
		o.InProcess = conns
		return unusedSink{}, nil
	})
	if err != nil {
		return nil, option.Errorf("%w (where that is bridge: stop it, or let %s in with ?listen=127.0.0.1:4222 in %s, after embedded:)", err, what.Command, option.SinkURL)
	}
	own, err := openReadingNATS(ctx, o, what)
	if errors.Is(err, bus.ErrNothing) {
		err = fmt.Errorf("the server in %s has no stream %s: bridge has published nothing there yet", e.Dir, e.Stream)
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &embeddedBus{own, server}, nil
}
