package shard

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/tap"
	"example.org/bridge/internal/tracing"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// Options describe one shard and what it works with.
type Options struct {
	// Stream and Name identify the shard; Name is the physical table as configured.
	Stream, Name string
	// Source reads the shard. SourceReady distinguishes a server that is away
	// from a table that cannot be read, and SourceName names that server in the outage log. It
	// defaults to SourceDependency.
	Source      source.Shard
	SourceReady func(context.Context) error
	SourceName  string
	// Encoder makes the events. It belongs to this shard alone.
	Encoder *event.Encoder
	// Format is that of Encoder.
	Format sink.Format
	// Route returns the destination of an event, and sets its Unfit where it has none. It is called
	// by one goroutine.
	Route func(*event.Event) string
	// Domain is the event domain, and Hash the stream.MeaningHash, of messages.
	Domain string
	Hash   uint32
	// Sink publishes. Reader reads back what it has published, nil where nothing can be read.
	Sink   sink.Sink
	Reader sink.Reader
	// Store is read; Committer alone writes it. Recovery reads what the bus has, into Feed. All of
	// them serve the process.
	Store     store.Store
	Committer *stream.Committer
	Recovery  Recovery
	// Deciding, where it is not nil, returns an error where this process must not decide about
	// START any more. It waits for the bus.
	Deciding func(ctx context.Context) error
	// Heard, where it is not nil, returns when this process may publish a batch.
	Heard func(ctx context.Context) error
	// Decided, where it is not nil, returns once the bus has the decision about START of the shard
	// beside its messages (decision 23): before the first row is read. The store has it by then.
	Decided func(ctx context.Context, since uint64) error
	// Left is what the shard of the table before a reload has left.
	Left Left
	// Feed, View and Movers are those of the stream. A release stream has no View and no Movers.
	Feed   *stream.Feed
	View   *stream.View
	Movers *stream.Movers
	// Shared says that the tables of the stream, which has several, share their entities.
	Shared bool
	// Tombstones says whether a message without a body follows each deleted event. Nil: never.
	Tombstones *Tombstones
	// DeadLetter is the destination of messages that the bus refuses for good. Empty stops the
	// shard instead.
	DeadLetter string
	// Whole says that Sink is a sink.Transactional: a batch goes with its dead letters at once.
	Whole bool
	// DeadLetterLimit bounds the dead letters; shared by all shards of the stream. Nil does not.
	DeadLetterLimit *DeadLetterLimit
	// Limits is shared by all shards of the stream.
	Limits *StreamLimits
	// Rate bounds the rows of the tails of the stream; shared by all its shards. Nil does not.
	Rate *Rate
	// RepublishRate bounds the rows of the stream that are published again, as the last request
	// says; shared by all its shards. Nil is one of the shard alone.
	RepublishRate *Rate
	// Lists are the topics or subjects that have the boundaries of a full list of the stream.
	Lists []string
	// ListFault says why there is no such list, empty where there is.
	ListFault string
	// Matcher returns a reader of ids of the table whose rows are Filtered unless they match a
	// condition that source.CheckFilter accepts.
	Matcher func(condition string) source.Shard
	// Faults logs what is waited out; shared by all shards.
	Faults *outage.Log
	// Tap shows what is acknowledged to those who listen; shared by all shards. Timed says that
	// rows have a time, CREATED or MODIFIED. Optional.
	Tap   *tap.Tap
	Timed bool
	// Metrics is shared by all shards.
	Metrics *Metrics
	Logger  *slog.Logger
	// Tracer makes a span of each batch. Nil: no span, and no header.
	Tracer *tracing.Tracer

	// Window is the stability window; 0 publishes at once.
	Window time.Duration
	// Zone is the zone of DATETIME columns.
	Zone *time.Location
	// PollInterval is the pause between two reads of a drained shard.
	PollInterval time.Duration
	// BatchRows is the highest number of rows of a page.
	BatchRows int
	// Start says where a shard begins of which nothing is known.
	Start Start
	// IDOrder says how ids are handed out; empty asks the server.
	IDOrder source.IDOrder
	// GapPolicy says whether the tail waits at gaps, GapTTL how long an id that was not seen is
	// polled.
	GapPolicy ledger.GapPolicy
	GapTTL    time.Duration
	// HotFor is how long a vacant id is polled every time. Defaults to 1.2 times the server's lock
	// wait timeout, at least 1 minute.
	HotFor time.Duration
	// SweepEvery is the time from one sweep over the cold ids to the next. Defaults to 1 minute.
	SweepEvery time.Duration
	// LedgerBytes bounds what the shard's gap ledger keeps in memory of its saved parts.
	LedgerBytes int
	// PublishedRows is how many of the rows published last are kept, to notice ids that are used
	// again. Defaults to 1000.
	PublishedRows int
	// Newest, where it is not nil, returns what the newest messages of the shard on the bus say of
	// rows, by their ids; it lacks those that it does not find in time.
	Newest func(ctx context.Context, rows []uint64) (map[uint64][]byte, error)
	// LostEvery is the pause between comparisons of rows published last that another server lacks.
	// Defaults to 5 s.
	LostEvery time.Duration
	// LastWithin bounds a read of the last messages of entities that are published again, and a
	// look at the ends of a topic that takes a full list. Defaults to 10 s.
	LastWithin time.Duration
	// Meaning is what the progress depends on: one that was made with another one stops the shard.
	// Nil is not compared.
	Meaning *store.Meaning
	// Announce is called at every start of the shard with the server's traits of its ids. Optional.
	Announce func(source.Traits)
	// Kind says what the rows mean: a capability shard has entities.
	Kind event.Kind
	// LookBack is how far the second cursor reads again behind itself. Defaults to 10 s.
	LookBack time.Duration
	// Reach is how old the MODIFIED of a change may be that shows for the first time, if the source
	// shows uncommitted rows. Defaults to 10 min.
	Reach time.Duration
	// CursorRows bounds the changes that the second cursor remembers, but for up to 200,000 of the
	// last two look-backs; an eighth as many may be in flight and watched one by one. A change
	// needs some 40 bytes. Defaults to 262,144.
	CursorRows int
	// StopOnSchemaChange stops the shard where its events would lack members that those published
	// under their version had, or have them with other types. Else it logs that.
	StopOnSchemaChange bool
	// Recheck is the pause before a stopped shard tries its table again. Defaults to 10 s.
	Recheck time.Duration
	// QuietAfter is how long a shard must have had nothing new before it is polled half as often,
	// and owns no goroutine between two polls. Defaults to 10 s.
	QuietAfter time.Duration
	// ShutdownTimeout bounds the time to publish and commit what is in flight at shutdown.
	ShutdownTimeout time.Duration
	// Text returns what a status or an outcome says of an error. Defaults to its Error.
	Text func(error) string
}

// Start says where a shard begins of which nothing is known.
type Start = stream.StartSetting

// Tombstones says whether a message with the key of the entity and no body follows each deleted
// event of a table: with it a compacted topic forgets the entity. Nil stands for never. It is safe
// for concurrent use.
type Tombstones struct {
	// compacted asks the bus whether the topic is compacted; nil has tombstones on always.
	compacted func(context.Context) (bool, error)
	logger    *slog.Logger
	on        atomic.Bool
	// warned says that the log was told why they are off.
	warned atomic.Bool
}

// NewTombstones returns tombstones that are on where compacted reports true, which is asked at each
// start of the shard, or always where it is nil.
func NewTombstones(compacted func(context.Context) (bool, error), logger *slog.Logger) *Tombstones {
	t := &Tombstones{compacted: compacted, logger: logger}
	t.on.Store(compacted == nil)
	return t
}

// On reports whether tombstones are published.
func (t *Tombstones) On() bool { return t != nil && t.on.Load() }

// decide asks the bus. Where that has never told, they are off.
func (t *Tombstones) decide(ctx context.Context) error {
	if t == nil || t.compacted == nil {
		return nil
	}
	on, err := t.compacted(ctx)
	switch {
	case errors.Is(err, sink.ErrHidden) && t.on.Load():
		// The topic was compacted when that showed last.
		return nil
	case errors.Is(err, sink.ErrHidden):
		if !t.warned.Swap(true) {
			t.logger.Info("whether the topic is compacted does not show: deleted events are published without tombstones; "+
				"grant the right, or set KAFKA_TOMBSTONES to on or off", "error", err)
		}
	case err != nil:
		return err
	case on && !t.on.Load():
		t.logger.Info("the topic is compacted: a tombstone follows each deleted event")
	}
	t.on.Store(on && err == nil)
	return nil
}
