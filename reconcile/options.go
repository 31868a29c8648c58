package reconcile

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"time"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/view"
	"bridge/source"
)

// Store is what a Reconciler reads of the checkpoint, and has forgotten. A [store.Store] is one.
type Store interface {
	Parts(ctx context.Context, key store.Key, kind store.Kind, from uint64) iter.Seq2[store.Part, error]
	Progress(ctx context.Context, key store.Key) (p store.Progress, found bool, err error)
	ForgetAbsent(ctx context.Context, stream string, before time.Time, limit int) (int, error)
}

// View is what was published last of each entity. A [view.View] is one.
type View interface {
	ByRow(ctx context.Context, shard string, after uint64, limit int, dst []store.Change) ([]store.Change, error)
	Lookup(ctx context.Context, shard string, entities [][]byte, dst []store.Entry) ([]store.Entry, error)
}

// Committer writes the checkpoint. A [bridge/internal/catchup.Committer] is one.
type Committer interface {
	Apply(ctx context.Context, b *store.Batch) error
}

// Options describe the reconcile of one shard. The fields up to Owner must be set.
type Options struct {
	// Stream and Shard name the shard as its checkpoint does.
	Stream, Shard string
	// Kind is the kind of the stream.
	Kind event.Kind
	// Source serves the Reconciler alone; the owner of the shard has its own. NewEncoder makes an
	// encoder for one run.
	Source     source.Shard
	NewEncoder func() (*event.Encoder, error)
	// Store holds the progress of a run, which Committer saves.
	Store     Store
	Committer Committer
	// View is that of the stream; nil for a release stream.
	View View
	// Owner judges nominations and publishes. A dry run only asks for its reach.
	Owner Owner

	// ReadKeys reads at most keysAtOnce keys in all tables of the stream, as that of
	// [view.MoversOptions] does, with an empty shard: an entity with a row in another table is not
	// gone. Nil where the tables of the stream share no entities.
	ReadKeys func(ctx context.Context, shard string, entities [][]byte) (view.Reading, error)
	// Window is the stability window. A row whose CREATED is younger is not judged, unless the view
	// has an entry for it.
	Window time.Duration
	// Zone is the time zone of a CREATED column without one. Defaults to UTC.
	Zone *time.Location
	// MaxDeletes is the share of the live entities, in percent, that may be gone before the guard
	// trips; 100 switches it off.
	MaxDeletes float64
	// Rate bounds the rows read a second. Defaults to no bound.
	Rate int64
	// PageRows and PageBytes bound one page; two are in memory. Default to 2500 and 1 MiB.
	PageRows, PageBytes int
	// SaveEvery is the time between two saves of the progress; a negative one saves after every
	// page. Defaults to 2 s.
	SaveEvery time.Duration
	// RetryLimit is how long an outage of the source or the store may last before the run is cut
	// short, to be resumed later. Defaults to 5 minutes.
	RetryLimit time.Duration
	// Logger defaults to slog.Default.
	Logger *slog.Logger
	// Text returns what a report says of an error, or of a guard that tripped. Defaults to its
	// Error.
	Text func(error) string
}

// Mode says what a run is to do.
type Mode struct {
	// DryRun reports the differences; it publishes and saves nothing.
	DryRun bool
	// AllowDeletes says that a person agrees to all deletes of this run.
	AllowDeletes bool
}

const (
	// minViewRows and maxViewRows bound how many entries of the view are read at once; their
	// entities take about viewBytes at most, with entryBytes each for the entry itself.
	minViewRows, maxViewRows = 200, 10_000
	viewBytes, entryBytes    = 2 << 20, 160
	// candidateBytes bounds the entities that are looked up by key together.
	candidateBytes = 1 << 20
	// keptGone is how long the entry of an absent entity is kept, so that its next event links to
	// the last one if it comes back.
	keptGone = 7 * 24 * time.Hour
	// allowedFor is how long a run that was cut short keeps a person's agreement to its deletes.
	allowedFor = time.Hour
	// forgetSlice is how many entities are forgotten at once.
	forgetSlice = 2000
	// keysAtOnce is how many keys are read at once in all tables of a stream.
	keysAtOnce = 200
)

func (o Options) withDefaults() Options {
	o.PageRows = cmp.Or(o.PageRows, 2500)
	o.PageBytes = cmp.Or(o.PageBytes, 1<<20)
	o.SaveEvery = cmp.Or(o.SaveEvery, 2*time.Second)
	o.RetryLimit = cmp.Or(o.RetryLimit, 5*time.Minute)
	o.Zone = cmp.Or(o.Zone, time.UTC)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Text == nil {
		o.Text = error.Error
	}
	if o.Rate > 0 {
		// Several pages a second, so that the rate is even.
		o.PageRows = int(max(1, min(int64(o.PageRows), o.Rate/4)))
	}
	return o
}
