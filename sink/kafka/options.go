package kafka

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"example.org/bridge/client/bus"
	"example.org/bridge/client/kafka/broker"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

// SASL is a login.
type SASL = broker.SASL

// SASL mechanisms.
const (
	Plain       = broker.Plain
	ScramSHA256 = broker.ScramSHA256
	ScramSHA512 = broker.ScramSHA512
	OAuthBearer = broker.OAuthBearer
)

// Compression is the codec of record batches.
type Compression string

// The codecs. Every broker since 0.11 reads all of them save zstd, which wants 2.1.
const (
	None   Compression = "none"
	Gzip   Compression = "gzip"
	Snappy Compression = "snappy"
	LZ4    Compression = "lz4"
	Zstd   Compression = "zstd"
)

// Compressions lists the codecs.
var Compressions = []Compression{None, Gzip, Snappy, LZ4, Zstd}

// DefaultMaxRequestBytes is a broker's default of socket.request.max.bytes.
const DefaultMaxRequestBytes = 100 << 20

// Connection says how to reach brokers.
type Connection = broker.Options

// Options of a sink.
type Options struct {
	// Connection has a ClientID that defaults to "bridge".
	Connection
	// Compression defaults to None, which every client reads.
	Compression Compression
	// Topics are checked by Ready besides those that were published to.
	Topics []string
	// Uncompactable says why compaction would lose what is published to a topic, in words for an
	// operator that follow on "because". For a topic that is not in it, each key stands for one
	// entity.
	Uncompactable map[string]string
	// Asked are topics of which the login should see whether they are compacted: Inspect tells
	// where it does not.
	Asked []string
	// Table says that Topics hold the last message of each key: Inspect wants them compacted, with
	// one partition.
	Table bool
	// MaxRequestBytes is what the brokers take in one request (their socket.request.max.bytes):
	// they cut the connection for more, so a record that does not fit is rejected unsent. Defaults
	// to DefaultMaxRequestBytes.
	MaxRequestBytes int
	// TransactionalID has every batch published in a transaction, as a whole, under this id. It is
	// the same for all processes of a configuration: the one that begins last is the one that
	// publishes. Empty means no transactions.
	TransactionalID string
	// TransactionInterval is how long a transaction takes in batches, at most. Defaults to 100 ms.
	TransactionInterval time.Duration
	// TransactionTimeout is after how long the brokers abort a transaction that was left, plus up
	// to 20 s. Defaults to 60 s.
	TransactionTimeout time.Duration
	// StalledAfter is how long a transaction waits for one partition; then others go on without it.
	// Defaults to 10 s.
	StalledAfter time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Fault is told of every fault that is retried. Optional.
	Fault sink.Fault
	// Session is called with a TP when sending to it goes on after a fault, and when its topic was
	// created again: another leader, or one that was restarted, may have other messages. It must
	// not block. Optional.
	Session func(tp string)
}

func (o *Options) fill() error {
	o.ClientID = cmp.Or(o.ClientID, "bridge")
	o.Compression = cmp.Or(o.Compression, None)
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, DefaultMaxRequestBytes)
	o.TransactionInterval = cmp.Or(o.TransactionInterval, 100*time.Millisecond)
	o.TransactionTimeout = cmp.Or(o.TransactionTimeout, transactionTimeout)
	o.StalledAfter = cmp.Or(o.StalledAfter, 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Session == nil {
		o.Session = func(string) {}
	}
	o.Errorf = errorf
	if err := o.Check(); err != nil {
		return err
	}
	for _, topic := range o.Topics {
		if err := bus.CheckTopic(topic); err != nil {
			return fmt.Errorf("kafka: %w", err)
		}
	}
	return nil
}

// settings are those of bridge that errors of the connections name.
var settings = map[broker.Setting]option.Name{
	broker.SettingBrokers: option.SinkURL, broker.SettingTLS: option.KafkaTLS, broker.SettingTLSCA: option.KafkaTLSCA, broker.SettingMechanism: option.KafkaSASLMechanism,
}

// errorf is [option.Errorf] with settings in place of those of package broker.
func errorf(format string, args ...any) error {
	args = slices.Clone(args)
	for i := range args {
		if s, is := args[i].(broker.Setting); is {
			args[i] = settings[s]
		}
	}
	return option.Errorf(format, args...)
}
