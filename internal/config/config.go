package config

import (
	"log/slog"
	"slices"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/source/sqlite"
)

// Config is everything that the environment says, checked and ready for wiring. Defaults are filled
// in. It holds no secret but for the headers of Trace: those are read by functions at each connect.
type Config struct {
	Source Source
	Sink   Sink
	// CheckpointPath is the checkpoint's folder, relative to the working directory or absolute.
	CheckpointPath string
	// CheckpointTopic is the topic of Kafka, or the KV bucket of NATS, that has copies of the
	// progress. Empty: the folder has all.
	CheckpointTopic string
	// Streams has at least one entry, in the order of BRIDGE_STREAMS.
	Streams []Stream

	// HTTPAddr is host:port.
	HTTPAddr string
	// HTTPToken is nil where none is set; ask it at each request. HTTPTLS names no certificate
	// where the HTTP server does not speak TLS.
	HTTPToken Secret
	HTTPTLS   TLS
	// Serve has the HTTP server show the entities of capability streams.
	Serve bool
	// MetricsByShard has each table show series of its own.
	MetricsByShard bool
	LogLevel       slog.Level
	// LogFormat is "text", "json", or empty: text on a terminal, else json.
	LogFormat string
	// Trace says where spans go; nil makes none.
	Trace *Trace
	// DomainID is meta.source.domainId.
	DomainID string
	// MaxInflightBytes bounds the rows of all streams that are read but not acknowledged.
	MaxInflightBytes int64
	// ShutdownTimeout is how long the first signal waits for what is in flight.
	ShutdownTimeout time.Duration

	// Standby says with whom the process shares the work.
	Standby Standby

	// Warnings are for the log at start: what is set but has no effect, or is unwise.
	Warnings []Warning
}

// Standby is a group of processes of which one works.
type Standby struct {
	// Group is empty where the process works alone.
	Group   string
	Timeout time.Duration
	// Settings has a hash of each variable that all processes must agree on, but for defaults.
	Settings map[string]string
}

// Warning is one remark about a variable.
type Warning struct{ Variable, Text string }

// Secret returns a secret as it is now. Where the variable names a file, every call reads it. The
// error never holds the secret.
type Secret func() (string, error)

// Source says which database to read. Scheme is "mysql" or "sqlite"; the struct named after it is
// set.
type Source struct {
	Scheme string
	// Addr is host:port, or the path of the file, for the log.
	Addr string
	// Database is data.row.source of tables without a database: the one of the URL, or the base
	// name of the file.
	Database string
	// MySQL and SQLite hold what the URL says; the rest of them has its zero value.
	MySQL  mysql.Options
	SQLite sqlite.Options
}

// Sink says which bus to publish to. Scheme is "kafka", "nats", "embedded" or "stdout"; the struct
// named after it is set.
type Sink struct {
	Scheme string
	// ExactlyOnce tells whether each batch is on the bus as a whole and once. Only some buses can.
	ExactlyOnce bool
	Kafka       Kafka
	NATS        NATS
	Embedded    Embedded
}

// Kafka says how to reach the brokers.
type Kafka struct {
	// Brokers are host:port.
	Brokers []string
	// Compression is "none", "gzip", "snappy", "lz4" or "zstd".
	Compression string
	// TransactionalID and TransactionInterval count with Sink.ExactlyOnce.
	TransactionalID     string
	TransactionInterval time.Duration
	// UseTLS tells whether connections are encrypted; only then TLS counts.
	UseTLS bool
	TLS    TLS
	// Mechanism is empty for no login, or "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
	// or "AWS_MSK_IAM".
	Mechanism string
	Username  string
	// Password and Token are set when Mechanism uses them; ask them at each connect.
	Password, Token Secret
	// AWSRegion counts with AWS_MSK_IAM.
	AWSRegion string
}

// NATS says how to reach the servers and how to log in, in at most one of the ways.
type NATS struct {
	// Servers are host:port; a token, where the URL has one, stands before the first as
	// token@host:port.
	Servers []string
	// Login returns user and password of the URL, nil when it has none. Ask it at each connect.
	Login func() (user, password string, err error)
	// Creds returns the contents of a credentials file, NKey a seed; nil when not set. Ask them at
	// each connect.
	Creds, NKey Secret
	// TLS names no file where none is set; the server then says whether connections are encrypted.
	// HandshakeFirst says that they begin with TLS.
	TLS            TLS
	HandshakeFirst bool
	// Domain is the JetStream domain, empty for that of the servers.
	Domain string
	// Stream is the JetStream stream, empty when not set; Create tells whether to create it.
	Stream string
	Create bool
	// Keeps is how a stream that is created keeps messages.
	Keeps Keeping
	// Claim is the subject of claims. It counts with Sink.ExactlyOnce.
	Claim string
}

// Embedded says where the NATS server inside the process keeps its data and whether others reach
// it.
type Embedded struct {
	// Dir is a folder; it need not exist.
	Dir string
	// Listen is host:port, empty for no listener; port 0 is a free one.
	Listen string
	// Stream is the JetStream stream, which is created. Keeps is how it keeps messages.
	Stream string
	Keeps  Keeping
}

// Keeping is how a JetStream stream that is created keeps messages. What is zero is not set.
type Keeping struct {
	Replicas        int
	File, Memory    bool
	MaxAge          time.Duration
	MaxBytes        int64
	DuplicateWindow time.Duration
}

// Stream is one stream.
type Stream struct {
	// Name is as BRIDGE_STREAMS spells it.
	Name string
	Kind event.Kind
	// Tables are the physical tables, one shard each.
	Tables []string
	// Event is the stem of the event types, empty for the default.
	Event string
	// EventNames has the event types that differ from the default.
	EventNames map[event.Op]string
	// Version is meta.version.
	Version string
	// Format is how messages hold events.
	Format event.Format
	// Fields is nil for all columns; a field without Member has the default one.
	Fields []event.Field
	// Exclude are the columns that are no members, Masks those whose values are replaced.
	Exclude []string
	Masks   map[string]source.Mask
	ID      string
	// Key is nil for the id.
	Key []string
	// Created, Modified and Deleted are empty when not set.
	Created, Modified, Deleted string
	// Deletion says which values of Deleted say that a row is deleted.
	Deletion event.Deletion
	// Filter is an SQL condition on rows, empty for all.
	Filter string
	// Destination is the template, the sink's default when not set.
	Destination string
	Family, Tag string
	Start       Start
	// The settings of the tail and of reconcile: the stream's own where it has them, else the
	// global ones.
	Tuning
}

// Naming names a setting by its variable: that of the stream where the stream has one, else that of
// the process. An empty stream is for what concerns no single one.
func Naming(stream string) option.Naming {
	return func(name option.Name) string {
		global, own := prefix+string(name), StreamPrefix(stream)+string(name)
		switch {
		case stream != "" && slices.Contains(known([]string{stream}), own):
			return own
		case slices.Contains(known(nil), global):
			return global
		}
		return streamPrefix + referenceStream + "_" + string(name)
	}
}

// Text returns the text of err with settings named by their variables.
func Text(err error) string { return option.Text(err, Naming("")) }

// StreamText returns Text for the errors of one stream: it names the stream's own variables.
func StreamText(stream string) func(error) string {
	return func(err error) string { return option.Text(err, Naming(stream)) }
}

// checkFilter checks FILTER as far as that can be done without the database.
func checkFilter(l *loader, begin, condition string) {
	if condition == "" {
		return
	}
	if err := source.CheckFilter(condition); err != nil {
		l.add(begin+"FILTER", "%s", err)
	}
}
