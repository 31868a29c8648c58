package shard

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/internal/outage"
	"bridge/internal/panics"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
	"bridge/source/ledger"
)

// Options describe one shard and what it works with.
type Options struct {
	// Stream and Name identify the shard; Name is the physical table as configured.
	Stream, Name string
	// Source reads the shard, IDs its ids alone. SourceReady tells a server that is away from a table that cannot be read.
	Source      source.Shard
	IDs         source.IDReader
	SourceReady func(context.Context) error
	// Encoder makes the events. It belongs to this shard alone.
	Encoder *event.Encoder
	// Route returns the destination of an event. It is called by one goroutine.
	Route func(*event.Event) string
	// Reaches reports whether Route may lead to a topic, or to a stream of JetStream, unless the shard has a mark of it. Nil where that is not known.
	Reaches func(topic string) bool
	// Sink publishes, Store saves.
	Sink  sink.Sink
	Store checkpoint.Store
	// DeadLetter is the destination of messages that the bus refuses for good. Empty stops the shard instead.
	DeadLetter string
	// Letters bounds the dead letters; shared by all shards of the stream. Nil does not.
	Letters *LetterLimit
	// Limits is shared by all shards of the stream.
	Limits *StreamLimits
	// Faults logs what is waited out; shared by all shards.
	Faults *outage.Log
	// Metrics is shared by all shards.
	Metrics *Metrics
	Logger  *slog.Logger

	// Window is the stability window; 0 publishes at once.
	Window time.Duration
	// Zone is the zone of DATETIME columns.
	Zone *time.Location
	// PollInterval is the pause between two reads of a drained shard.
	PollInterval time.Duration
	// BatchRows is the highest number of records of a page.
	BatchRows int
	// Start says where a shard without a checkpoint begins.
	Start Start
	// IDOrder says how ids are handed out; empty asks the server.
	IDOrder source.IDOrder
	// GapPolicy says whether the tail waits at gaps, GapTTL how long an id that was not seen is looked for.
	GapPolicy ledger.GapPolicy
	GapTTL    time.Duration
	// HotFor is how long a vacant id is looked for at every poll. Defaults to 1.2 times the server's lock wait timeout, at least 1 minute.
	HotFor time.Duration
	// SweepEvery is the time from one sweep over the cold ids to the next. Defaults to 1 minute.
	SweepEvery time.Duration
	// LedgerBytes bounds what the shard's gap ledger keeps in memory of its saved parts.
	LedgerBytes int
	// PublishedRows is how many of the rows published last are kept, to tell whether their ids are used again. Defaults to 1000.
	PublishedRows int
	// LostEvery is how often rows published last that another server lacks are looked at. Defaults to 5 s.
	LostEvery time.Duration
	// Meaning is what the saved state depends on: a state that was made with another one stops the shard. Nil is not compared.
	Meaning *checkpoint.Meaning
	// Announce is told what the server answered about its ids, at every start of the shard. Optional.
	Announce func(source.Traits)
	// Recalls finds out whether the bus knows more than the checkpoint; shared by all shards, nil where it is not asked. NewRecalls sets it.
	Recalls *Recalls
	// Kind says what the rows mean: a capability shard has a view and journals.
	Kind event.Kind
	// LookBack is how far the second cursor reads again behind itself. Defaults to 10 s.
	LookBack time.Duration
	// Reach is how old the MODIFIED of a change may be that shows for the first time, where uncommitted rows are shown. Defaults to 10 min.
	Reach time.Duration
	// CursorRows bounds the changes that the second cursor remembers; an eighth as many may be in flight and watched one by one. A change
	// takes some 40 bytes. Defaults to 262,144.
	CursorRows int
	// Siblings returns readers of the other shards of the stream; an entity that lives in one of them is not gone. Optional.
	Siblings func() []reconcile.Sibling
	// Recheck is the pause before a stopped shard looks whether its table can be read by now. Defaults to 10 s.
	Recheck time.Duration
	// TurnEvery is how often a loop that waits shows that it is alive. Defaults to 5 s.
	TurnEvery time.Duration
	// ShutdownTimeout bounds the time to publish and save what is in flight when the shard is told to end.
	ShutdownTimeout time.Duration
	// Text returns what a status says of an error. Defaults to its Error.
	Text func(error) string
}

// Start says where a shard without a checkpoint begins.
type Start struct {
	// Latest begins behind the highest id that is there; ID is then of no account.
	Latest bool
	// After is the id behind which to begin; 0 begins with the first row.
	After uint64
}

// Shard is one physical table on its way to the bus.
type Shard struct {
	opts   Options
	status tracker
	// retrier waits for source, store and bus.
	retrier *retrier
	saver   *saver
	// offsets belong to the goroutine that publishes, to the owner while none does.
	offsets   *offsets
	nominator *nominator
	consent   *consent
	// fromFirst says that a person has agreed that the shard begins at the first row.
	fromFirst bool

	// The owner's own, touched by no other goroutine.
	reader  *reader
	server  *server
	gaps    *gaps
	tail    *tail
	builder *builder
	// arrival tells the log of the start.
	arrival  arrival
	progress *progress
	recovery *recovery
	pace     pace
}

// New returns a Shard; Run sets it going.
func New(opts Options) *Shard {
	opts.Recheck = cmp.Or(opts.Recheck, 10*time.Second)
	opts.TurnEvery = cmp.Or(opts.TurnEvery, 5*time.Second)
	opts.PublishedRows = cmp.Or(opts.PublishedRows, defaultPublishedRows)
	opts.LostEvery = cmp.Or(opts.LostEvery, 5*time.Second)
	opts.LookBack = cmp.Or(opts.LookBack, 10*time.Second)
	opts.Limits = opts.Limits.shard()
	opts.Reach = max(opts.LookBack, cmp.Or(opts.Reach, 10*time.Minute))
	opts.CursorRows = max(leastCursorRows, cmp.Or(opts.CursorRows, 1<<18))
	s := &Shard{opts: opts, consent: newConsent()}
	s.status.init(opts.Stream, opts.Name, opts.PollInterval)
	s.nominator = newNominator(&s.status)
	s.retrier = newRetrier(&s.opts, &s.status)
	s.reader = newReader(&s.opts, &s.status, s.retrier)
	s.server = &server{opts: &s.opts, reader: s.reader}
	s.gaps = &gaps{opts: &s.opts, reader: s.reader, server: s.server, status: &s.status}
	s.tail = &tail{opts: &s.opts, reader: s.reader, status: &s.status, gaps: s.gaps, window: ledger.NewWindow(opts.Window)}
	s.progress = &progress{opts: &s.opts, status: &s.status, server: s.server, arrival: &s.arrival}
	s.builder = &builder{opts: &s.opts}
	s.saver, s.offsets = newSaver(&s.opts, &s.status, s.retrier), newOffsets(&s.opts)
	s.recovery = &recovery{opts: &s.opts, retrier: s.retrier, saver: s.saver, offsets: s.offsets, bind: s.ping}
	if s.status.text = opts.Text; opts.Text == nil {
		s.status.text = error.Error
	}
	opts.Metrics.show(opts.Stream, opts.Encoder.Types(), []string{PlaceSource, s.retrier.table, s.retrier.store})
	return s
}

// Run tails the shard until ctx is cancelled, then publishes and saves what is in flight within the shutdown timeout, and
// returns nil. What cannot be waited out stops this shard alone and shows in Status. An error means that the process has to be
// restarted: the checkpoint cannot be used any more.
func (s *Shard) Run(ctx context.Context) error {
	defer s.status.rest(owning)
	for {
		err := nameLoss(&s.opts, panics.Guard(func() error { return s.attempt(ctx) }))
		if panics.Is(err) {
			// All goroutines of the attempt have ended: nobody else gives back what one that panicked had reserved.
			s.opts.Limits.reclaim()
		}
		s.consent.want(err)
		if ctx.Err() != nil {
			if errors.Is(err, errShutdown) {
				s.opts.Logger.Warn("shard ended with messages in flight, they are published again at the next start", "error", err)
			}
			return nil
		}
		if errors.Is(err, checkpoint.ErrUnusable) {
			return err
		}
		if s.status.stop(err) {
			s.opts.Logger.Error("shard stopped", panics.LogArgs(err)...)
		}
		if !s.pauseStopped(ctx, err) {
			return nil
		}
	}
}

// pauseStopped waits until a stopped shard is to be tried again, and reports false when ctx ends first. What a grant or a
// CREATE TABLE can heal is looked at again; anything else needs a restart.
func (s *Shard) pauseStopped(ctx context.Context, err error) bool {
	heals := errors.Is(err, source.ErrMissing) || errors.Is(err, source.ErrDenied) || errors.Is(err, source.ErrUnfit)
	tick := time.NewTicker(s.opts.Recheck)
	defer tick.Stop()
	var accepted <-chan struct{}
	if errors.Is(err, ErrIDsReused) {
		accepted = s.consent.given
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-accepted:
			s.fromFirst = true
			s.consent.granted()
			return true
		case <-tick.C:
			s.status.turn(owning)
			if heals {
				return true
			}
		}
	}
}

var errShutdown = errors.New("the shutdown time limit passed")

// attempt runs the three stages until ctx is cancelled or one of them cannot go on.
func (s *Shard) attempt(ctx context.Context) error {
	s.status.turn(owning)
	view := newView(&s.opts, s.retrier)
	state, owner, err := s.begin(ctx, view)
	if err != nil {
		return err
	}
	defer s.nominator.begin()()
	// Publishing outlives ctx by the shutdown timeout, saving what was acknowledged by a little more; reading ends with ctx or
	// with the publisher.
	publishing, endPublishing := outlive(ctx, s.opts.ShutdownTimeout)
	defer endPublishing(nil)
	saving, endSaving := outlive(ctx, s.opts.ShutdownTimeout+saveGrace)
	defer endSaving(nil)
	read, stopReading := context.WithCancelCause(ctx)
	defer stopReading(nil)

	toPublish := make(chan *batch, 1)
	toSave := make(chan save, 1)
	var stages errgroup.Group
	stages.Go(func() error {
		defer close(toPublish)
		defer s.status.rest(owning)
		err := panics.Guard(func() error { return owner.run(read, state.Position, toPublish) })
		if err != nil {
			// At once, not when the batches before it are through.
			s.status.fault(reading, err)
		}
		s.reader.release()
		return err
	})
	stages.Go(func() error {
		defer close(toSave)
		p := s.newPublisher(&state, view, func(request save) error {
			select {
			case toSave <- request:
				return nil
			case <-saving.Done():
				return context.Cause(saving)
			}
		})
		err := panics.Guard(func() error { return p.run(publishing, toPublish) })
		stopReading(err)
		for b := range toPublish {
			b.discard(s.opts.Limits)
		}
		return err
	})
	stages.Go(func() error {
		err := panics.Guard(func() error { return s.saver.run(saving, toSave) })
		stopReading(err)
		if err != nil {
			// The publisher may wait for a save that never comes.
			endPublishing(err)
		}
		// Without a reader the publisher would wait for ever.
		for range toSave {
		}
		return err
	})
	return stages.Wait()
}

// newPublisher returns a publisher that goes on from state and hands requests to the saver.
func (s *Shard) newPublisher(state *checkpoint.State, v *view, request func(save) error) *publisher {
	unsaved := newUnsaved(state, s.offsets)
	unsaved.patient = v != nil
	unsaved.saved = func(ledger, seq uint64) {
		if ledger > 0 {
			s.gaps.saved(ledger)
		}
		if seq > 0 {
			v.durable(seq)
		}
	}
	return &publisher{
		opts: &s.opts, status: &s.status, retrier: s.retrier, arrival: &s.arrival, journals: v != nil,
		sender: &sender{opts: &s.opts, retrier: s.retrier, loop: publishing}, unsaved: unsaved, request: request, planned: frontOf(state),
	}
}

// newOwner returns an owner that goes on from state, once the ledger is there. v is nil for a release
// shard.
func (s *Shard) newOwner(state *checkpoint.State, v *view, published *publishedRows) *owner {
	o := &owner{
		opts: &s.opts, status: &s.status, reader: s.reader, server: s.server, gaps: s.gaps, tail: s.tail, builder: s.builder,
		progress: s.progress, pace: &s.pace, published: published, view: v, nominated: s.nominator.nominated,
		idWatch: &idWatch{opts: &s.opts, reader: s.reader, published: published},
	}
	if v != nil && s.server.traits.ModifiedIndexed {
		o.changes = newChanges(s.gaps, &s.pace, state.Cursor)
	}
	o.nominations = s.newNominations(v, published, o.handOver)
	return o
}

// newNominations returns what publishes nominations: it hands batches to handOver.
func (s *Shard) newNominations(v *view, published *publishedRows, handOver func(context.Context, *batch, chan<- *batch) error) *nominations {
	again := &rereader{
		opts: &s.opts, reader: s.reader, builder: s.builder, view: v, published: published, gaps: s.gaps, handOver: handOver,
	}
	absence := &absence{opts: &s.opts, reader: s.reader, server: s.server, view: v}
	resender := &resender{rereader: again, absence: absence, bind: s.ping}
	return &nominations{opts: &s.opts, status: &s.status, rereader: again, absence: absence, resender: resender}
}

// ping binds the encoder to the columns of the table and shows that the source answers.
func (s *Shard) ping(ctx context.Context) error { return s.server.ping(ctx, s.pace.quiet()) }

// saveGrace is how long after the shutdown timeout what was acknowledged may still be saved.
const saveGrace = time.Second

// outlive returns a context that ends the given time after ctx has.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelCauseFunc) {
	longer, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		limit := time.AfterFunc(by, func() { end(errShutdown) })
		context.AfterFunc(longer, func() { limit.Stop() })
	})
	return longer, func(cause error) { stop(); end(cause) }
}
