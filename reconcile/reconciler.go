package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// Reconciler reconciles one shard. Run serves one goroutine at a time; Status may be called by any.
type Reconciler struct {
	opts    Options
	log     *slog.Logger
	faults  *outage.Log
	tracker tracker

	// reading is full while the source is in use: the scan reads ahead of the comparison.
	reading chan struct{}
	// answered is the demand that the last run answered. It serves the goroutine of the runs.
	answered demand
}

// New returns a reconciler under o.
func New(o Options) *Reconciler {
	o = o.withDefaults()
	log := o.Logger.With("stream", o.Stream, "shard", o.Shard)
	r := &Reconciler{opts: o, log: log, faults: outage.New(log), reading: make(chan struct{}, 1)}
	r.tracker.status.Stream, r.tracker.status.Shard = o.Stream, o.Shard
	return r
}

func (r *Reconciler) key() store.Key {
	return store.Key{Stream: r.opts.Stream, Shard: r.opts.Shard}
}

// Run reconciles the shard once, or finishes the run on record that was cut short; a dry run does
// neither. It blocks until everything that differs has been judged, published and saved. An error
// says that the run was cut short: it can be resumed, and the report tells how far it came.
//
// A guard that trips is not an error: Report.Guard says so.
func (r *Reconciler) Run(ctx context.Context, mode Mode) (Report, error) {
	r.tracker.begin(mode)
	p := &pass{Reconciler: r, mode: mode}
	err := panics.Guard(func() (err error) {
		if p.encoder, err = r.opts.NewEncoder(); err != nil {
			return err
		}
		return p.reconcile(ctx)
	})
	report := Report{
		Stream: r.opts.Stream, Shard: r.opts.Shard,
		Result: Result{
			DryRun: mode.DryRun, StartedAt: null.At(p.run.Started), Rows: p.run.Scanned, Verdict: p.run.Verdict, Absent: p.run.Gone,
			Resumed: p.resumed, Unjudged: null.Text(p.unjudged),
		},
		Entities:        p.run.Entities,
		VerifiedThrough: null.At(p.run.Verified),
		Guard:           null.Text(p.guard),
		Differences:     append([]Difference{}, p.dry.differences...),
		away:            p.run.Away,
	}
	if err == nil {
		report.EndedAt.Time = p.run.Ended
	} else {
		report.Error = null.Text(r.opts.Text(err))
	}
	r.tracker.end(report, p.run, err)
	switch {
	case panics.Is(err):
		r.log.Error("reconcile panicked", panics.LogArgs(err)...)
	case err == nil && (report.Verdict != Verdict{} || report.Resumed || report.Guard != ""):
		r.log.Info("reconcile ended", "dry_run", mode.DryRun, "report", report)
	case err == nil:
		r.log.Debug("reconcile ended", "dry_run", mode.DryRun, "report", report)
	}
	return report, err
}

// lastRun loads the run on record; the zero value is that there is none.
func (r *Reconciler) lastRun(ctx context.Context) (run Run, err error) {
	err = r.retry(ctx, "load the reconcile run", func() (err error) {
		run, _, err = LoadRun(ctx, r.opts.Store, r.key())
		return err
	})
	return run, err
}

// read reads a page, waiting for a source that is away.
func (r *Reconciler) read(ctx context.Context, q source.Query, page *source.Page) error {
	return r.query(ctx, "read "+r.opts.Shard, func() error { return r.opts.Source.Read(ctx, q, page) })
}

// query uses the source, retrying while it is away.
func (r *Reconciler) query(ctx context.Context, what string, try func() error) error {
	return r.retry(ctx, what, func() error {
		release, err := backoff.Acquire(ctx, r.reading)
		if err != nil {
			return err
		}
		defer release()
		return try()
	})
}

func (p *pass) reconcile(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	compare := p.scan
	if p.opts.Kind == event.Release {
		compare = p.release
	}
	if err := compare(ctx); err != nil {
		return err
	}
	if err := p.nominateAbsent(ctx); err != nil {
		return err
	}
	return p.finish(ctx)
}

// Store is what a Reconciler reads of the checkpoint, and has forgotten. A [store.Store] is one.
type Store interface {
	Parts(ctx context.Context, key store.Key, kind store.Kind, from uint64) iter.Seq2[store.Part, error]
	Progress(ctx context.Context, key store.Key) (p store.Progress, found bool, err error)
	ForgetAbsent(ctx context.Context, of store.Key, before time.Time, limit int) (int, error)
}

// View has the last published state of each entity. A [stream.View] is one.
type View interface {
	ByRow(ctx context.Context, shard string, after uint64, limit int, dst []store.Change) ([]store.Change, error)
	Lookup(ctx context.Context, shard string, entities [][]byte, dst []store.Entry) ([]store.Entry, error)
}

// Committer writes the checkpoint. A [example.org/bridge/internal/stream.Committer] is one.
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
	// View is the view of the stream; nil for a release stream.
	View View
	// Owner judges nominations and publishes. A dry run only asks for its reach.
	Owner Owner

	// ReadKeys reads at most keysAtOnce keys in all tables of the stream, as that of
	// [stream.MoversOptions] does, with an empty shard: an entity with a row in another table is
	// not gone. Nil where the tables of the stream share no entities.
	ReadKeys func(ctx context.Context, shard string, entities [][]byte) (stream.FoundRows, error)
	// Window is the stability window. A row whose CREATED is younger is not judged, unless the view
	// has an entry for it.
	Window time.Duration
	// Zone is the time zone of a CREATED column without one. Defaults to UTC.
	Zone *time.Location
	// MaxDeletes is the share of the live entities, in percent, that may be gone before the guard
	// trips; 100 switches it off.
	MaxDeletes float64
	// StaleAfter is for how long nobody has touched a row that counts as gone; 0 for never.
	StaleAfter time.Duration
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
	// keptStale is keptGone of a stream whose rows expire, and of other tables: the row of such an
	// entity may still be there, and without the link its next Added would have the id of its
	// first one.
	keptStale = 365 * 24 * time.Hour
	// allowedFor is how long a run that was cut short keeps a person's agreement to its deletes.
	allowedFor = time.Hour
	// forgetSlice is how many entities are forgotten at once.
	forgetSlice = 2000
	// AwayLimit is how long a run waits where another table of the stream cannot be read: then
	// it goes on without a verdict about the entities that wait for that.
	AwayLimit = 10 * time.Second
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

// Nomination names rows and entities that may differ from what was published. It proves nothing:
// the owner reads them again.
type Nomination struct {
	// Rows are ids of rows that the view does not know or knows with another digest: ascending and
	// disjoint, at most MaxNominated ids in all.
	Rows []source.Range
	// Entities are the keys of entities of the view without a row: at most MaxNominated.
	Entities [][]byte
	// Published asks for a comparison of the rows published last with the table. If their ids are
	// used again, the shard stops.
	Published bool
}

// MaxNominated bounds one nomination.
const MaxNominated = 1000

// Verdict counts the events that the owner published for a nomination.
type Verdict struct {
	Added    uint64 `json:"added"`
	Modified uint64 `json:"modified"`
	Deleted  uint64 `json:"deleted"`
	// Missed counts the rows of a release stream.
	Missed uint64 `json:"missed"`
}

// Add adds v to the counts.
func (c *Verdict) Add(v Verdict) {
	c.Added += v.Added
	c.Modified += v.Modified
	c.Deleted += v.Deleted
	c.Missed += v.Missed
}

// Owner publishes a shard.
type Owner interface {
	// Nominate blocks until the rows and entities of n have been read and the differences were
	// published, by the owner or, where an entity moves, by another, and applied. An error that
	// wraps [stream.ErrAway] says that the others were, and some wait for another table; any other
	// one that the shard stopped or ctx ended, and any part of n may have been published.
	Nominate(ctx context.Context, n Nomination) (Verdict, error)
	// Reach returns the saved position of the shard, up to which a scan may judge; false while the
	// shard does not run.
	Reach() (position uint64, ok bool)
	// ReconcileDue reports whether a run has to follow at once; demand is the number of that
	// demand.
	ReconcileDue() (demand uint64, due bool)
	// Reconciled says that a run which began after demand was returned has compared the whole
	// table, and returns once that is applied.
	Reconciled(ctx context.Context, demand uint64) error
}

// demand is an owner's demand that a run follows at once, if it is due.
type demand struct {
	number uint64
	due    bool
}

func demandOf(o Owner) (w demand) {
	w.number, w.due = o.ReconcileDue()
	return w
}

// ErrNotRunning is returned by Run when the shard does not run, so that nothing can be published.
var ErrNotRunning = errors.New("the shard does not run")

func isPermanent(err error) bool {
	return source.Stops(err) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrForeign) || errors.Is(err, store.ErrNewer) || errors.Is(err, store.ErrClosed)
}

const reconciling = "reconcile"

// retry calls try until it succeeds, fails for good, or has failed for Options.RetryLimit.
func (r *Reconciler) retry(ctx context.Context, what string, try func() error) error {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 10 * time.Second, Limit: r.opts.RetryLimit}
	err := pause.Retry(ctx, func() error {
		defer r.tracker.try()()
		return try()
	}, func(err error) bool {
		if isPermanent(err) {
			return false
		}
		r.faults.Fail(reconciling, fmt.Errorf("%s: %w", what, err))
		return true
	})
	switch {
	case err == nil:
		r.faults.OK(reconciling)
		return nil
	case ctx.Err() != nil:
		r.faults.Forget(reconciling)
		return err
	}
	r.faults.Forget(reconciling)
	if !isPermanent(err) {
		what += fmt.Sprintf(", gave up after %s", r.opts.RetryLimit)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// limiter bounds the rows read a second. Without a bound it never waits.
type limiter struct {
	*rate.Limiter
	// pending is how many rows were read and not waited for.
	pending int
}

// newLimiter returns a limiter that permits the first read at once.
func (o Options) newLimiter() *limiter {
	limit := rate.Inf
	if o.Rate > 0 {
		limit = rate.Limit(o.Rate)
	}
	return &limiter{Limiter: rate.NewLimiter(limit, o.PageRows), pending: o.PageRows}
}

// wait blocks before a read until the rows of the read before are permitted. So no page grows old
// while it waits for its rate.
func (l *limiter) wait(ctx context.Context) error {
	err := l.WaitN(ctx, l.pending)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.pending = 0
	return err
}

// read notes that rows were read; more than Options.PageRows count as these.
func (l *limiter) read(rows int) { l.pending = min(rows, l.Burst()) }
