package shard

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/published"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// Shard is one physical table on its way to the bus.
type Shard struct {
	opts   Options
	status tracker
	// retrier waits for source, store and bus.
	retrier *retrier
	// stamper belongs to the publisher.
	stamper   *stamper
	nominator *nominator
	// halt ends the shard for good, pausing the reads of an attempt.
	halt    ending
	pausing pausing
	// republish has an element where what is to be published again has changed; interrupt ends the
	// condition that runs, nil while none does.
	republish chan struct{}
	interrupt atomic.Pointer[context.CancelFunc]
	// unresolved says that the bus may have messages that the store does not know of (rule 9).
	unresolved bool
	// dry says that the shard does not run, and serves a dry run.
	dry bool

	// The owner's own, touched by no other goroutine.
	reader  *reader
	server  *server
	gaps    *gaps
	opening *opening
	tail    *tail
	builder *builder
	tailLog *tailLog
	pace    pace
	// live is the owner of the attempt that runs or is idle, nil between two.
	live *owner

	// scheduler runs the shard, nil before it does; scheduled is what it keeps of the shard.
	scheduler atomic.Pointer[Scheduler]
	scheduled scheduled
}

// New returns a Shard; a [Scheduler] sets it going.
func New(opts Options) *Shard {
	opts.Recheck = cmp.Or(opts.Recheck, 10*time.Second)
	opts.PublishedRows = cmp.Or(opts.PublishedRows, published.DefaultRows)
	opts.LostEvery = cmp.Or(opts.LostEvery, 5*time.Second)
	opts.LastWithin = cmp.Or(opts.LastWithin, 10*time.Second)
	opts.LookBack = cmp.Or(opts.LookBack, 10*time.Second)
	opts.SourceName = cmp.Or(opts.SourceName, SourceDependency)
	opts.Reach = max(opts.LookBack, cmp.Or(opts.Reach, 10*time.Minute))
	opts.CursorRows = max(leastCursorRows, cmp.Or(opts.CursorRows, 1<<18))
	if opts.Text == nil {
		opts.Text = error.Error
	}
	if opts.Rate == nil {
		opts.Rate = NewRate(0)
	}
	if opts.RepublishRate == nil {
		opts.RepublishRate = NewRate(0)
	}
	s := &Shard{opts: opts, republish: make(chan struct{}, 1), pace: pace{after: cmp.Or(opts.QuietAfter, quietAfter)}}
	s.status.init(opts.Stream, opts.Name, opts.PollInterval, opts.Window)
	s.nominator = &nominator{nominated: make(chan *nomination), wake: s.wake}
	s.retrier = newRetrier(&s.opts, &s.status)
	s.reader = &reader{opts: &s.opts, status: &s.status, retrier: s.retrier, schemas: &schemas{opts: &s.opts}}
	s.server = &server{opts: &s.opts, reader: s.reader}
	s.gaps = &gaps{opts: &s.opts, reader: s.reader, server: s.server, status: &s.status}
	s.opening = &opening{opts: &s.opts, retrier: s.retrier, reader: s.reader, gaps: s.gaps}
	s.tail = &tail{opts: &s.opts, reader: s.reader, status: &s.status, gaps: s.gaps, window: ledger.NewWindow(opts.Window)}
	s.tailLog = &tailLog{opts: &s.opts, status: &s.status, server: s.server}
	s.builder = &builder{opts: &s.opts}
	s.stamper = &stamper{opts: &s.opts}
	s.status.text = opts.Text
	s.goOn(&opts.Left)
	opts.Metrics.show(opts.Stream, opts.Encoder.Types(), []string{opts.SourceName, s.retrier.series(s.retrier.table), s.retrier.series(s.retrier.store)})
	return s
}

// wake has the shard go on if it is idle.
func (s *Shard) wake() {
	if scheduler := s.scheduler.Load(); scheduler != nil {
		scheduler.wake(s)
	}
}

// run runs the shard until it is idle, or as [Scheduler.Run] does.
func (s *Shard) run(ctx context.Context) (idle bool, err error) {
	defer s.status.idle(owning)
	if stop := s.opts.Left.stop; stop != nil {
		s.opts.Left = Left{}
		if !s.pauseStopped(ctx, stop) {
			return false, nil
		}
	}
	// warned is when the log was last told of an unknown outcome.
	var warned time.Time
	for {
		attempt, end := s.halt.begin(ctx)
		err := panics.Guard(func() (err error) {
			if err = s.awaitResumed(attempt); err == nil {
				idle, err = s.attempt(attempt)
			}
			return err
		})
		end(nil)
		if idle {
			return true, nil
		}
		err = s.halt.reason(err)
		if s.opts.View != nil {
			s.opts.View.Stop(s.opts.Name)
		}
		if panics.Is(err) {
			s.unresolved = true
		}
		if ctx.Err() != nil {
			if errors.Is(err, errShutdown) {
				s.opts.Logger.Warn("shard ended with messages in flight, the next start reads what the bus has of them", "error", err)
			}
			return false, nil
		}
		if errors.Is(err, errPaused) {
			continue
		}
		if _, broken := errors.AsType[*storeError](err); broken {
			return false, err
		}
		if _, open := errors.AsType[*unresolvedError](err); open {
			s.unresolved = true
		}
		if errors.Is(err, stream.ErrReadBack) {
			level := slog.LevelDebug
			if errors.Is(err, stream.ErrUnread) {
				s.retrier.unread(err)
			} else if warned.IsZero() || time.Since(warned) > time.Minute {
				level, warned = slog.LevelWarn, time.Now()
			}
			s.opts.Logger.Log(ctx, level, "the bus does not tell where it has put messages: what it has is read back before the shard goes on", "error", err)
			s.status.abandon()
			if backoff.Pause(ctx, unknownPause) != nil {
				return false, nil
			}
			continue
		}
		if failed := s.saveStop(ctx, err); failed != nil {
			if _, broken := errors.AsType[*storeError](failed); broken || ctx.Err() != nil {
				return false, ended(ctx, failed)
			}
			s.opts.Logger.Warn("why the shard has stopped could not be saved: a restart may not know it", "error", failed)
		}
		if s.status.stop(err) {
			s.opts.Logger.Error("shard stopped", panics.LogArgs(err)...)
		}
		if !s.pauseStopped(ctx, err) {
			return false, nil
		}
	}
}

// unknownPause is the pause before a shard reads back what the bus has.
const unknownPause = 100 * time.Millisecond

// pauseStopped waits until a stopped shard is to be tried again, and reports false if ctx ends
// first. What a grant or a CREATE TABLE can heal is tried again, and a server that lagged and has
// caught up; anything else needs a restart.
func (s *Shard) pauseStopped(ctx context.Context, err error) bool {
	heals := source.Stops(err) || errors.Is(err, ErrSchemaChanged)
	tick := time.NewTicker(s.opts.Recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-s.status.accepted:
			s.opening.fromFirst = true
			return true
		case <-tick.C:
			s.status.heartbeat(owning)
			if heals || caughtUp(ctx, s, err) {
				return true
			}
		}
	}
}

var errShutdown = errors.New("the shutdown time limit passed")

// attempt catches up and runs the owner and the publisher until ctx is cancelled, one of them
// cannot go on, or the shard is idle. It goes on with an attempt that is idle. It returns errPaused
// where the shard was paused: then the store has all that was in flight.
func (s *Shard) attempt(ctx context.Context) (idle bool, err error) {
	read, stopReading := s.pausing.begin(ctx)
	defer stopReading(nil)
	defer func() {
		if !idle {
			s.endLive()
		}
	}()
	if s.live == nil {
		if err := s.start(read); err != nil || read.Err() != nil {
			return false, pausedOr(read, ended(read, err))
		}
	}
	owner := s.live
	// Publishing outlives ctx by the shutdown timeout; reading ends with ctx, with the
	// publisher, or with a pause.
	publishing, endPublishing := outlive(ctx, s.opts.ShutdownTimeout)
	defer endPublishing(nil)

	publisher := &publisher{
		opts: &s.opts, status: &s.status, retrier: s.retrier, stamper: s.stamper, epoch: s.opts.Recovery.Epoch(),
		sender: &sender{opts: &s.opts, retrier: s.retrier},
	}
	owner.pipe.open(func(b *batch) error { return publisher.run(publishing, b) }, stopReading)
	err = panics.Guard(func() (err error) {
		idle, err = owner.run(read)
		return err
	})
	s.status.idle(owning)
	if err != nil {
		// At once, not when the batch before it is through.
		s.status.fault(reading, err)
	}
	s.reader.share = nil // also where it panics
	s.opts.Limits.release(&s.reader.oversize)
	failed := owner.pipe.close()
	if _, open := errors.AsType[*unresolvedError](failed); open || panics.Is(failed) {
		// Here: the error of the owner comes first.
		s.unresolved = true
	}
	err = cmp.Or(err, failed)
	return idle && err == nil, pausedOr(read, err)
}

// start catches up, and begins what outlasts the times in which the shard is idle.
func (s *Shard) start(ctx context.Context) error {
	s.status.heartbeat(owning)
	err := s.retrier.wait(owning, forEver, func() error {
		if err := s.opts.Recovery.Wait(ctx, s.opts.Stream); err != nil || !s.unresolved {
			return err
		}
		// Rule 9: before the next batch.
		return s.opts.Recovery.Resolve(ctx, s.opts.Stream)
	})
	if err != nil {
		return err
	}
	s.unresolved = false
	if err := s.loadPause(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := s.retrier.wait(owning, forEver, func() error { return s.opts.Tombstones.decide(ctx) }); err != nil {
		return err
	}
	owner, err := s.begin(ctx)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	s.nominator.ended.Store(&ended)
	s.live = owner
	return nil
}

func (s *Shard) endLive() {
	if s.live != nil {
		close(*s.nominator.ended.Swap(nil))
		s.live = nil
	}
	s.opts.Feed.End(s.opts.Name)
}

// newOwner returns an owner that goes on from the progress that is open.
func (s *Shard) newOwner(entities *entities, publishedRows *publishedRows) *owner {
	s.gaps.pipe = &pipe{retrier: s.retrier}
	o := &owner{
		pipe: s.gaps.pipe,
		opts: &s.opts, status: &s.status, reader: s.reader, server: s.server, gaps: s.gaps, tail: s.tail, builder: s.builder,
		tailLog: s.tailLog, pace: &s.pace, publishedRows: publishedRows, entities: entities, nominator: s.nominator,
	}
	s.gaps.changes = nil
	o.nominations = s.newNominations(entities, publishedRows, o.handOver)
	o.republish = &republishing{nominations: o.nominations, asked: s.republish, interrupt: &s.interrupt, next: time.NewTimer(0), most: againRows}
	return o
}

func (s *Shard) newNominations(entities *entities, publishedRows *publishedRows, handOver func(*batch, *hold)) *nominations {
	return &nominations{
		opts: &s.opts, reader: s.reader, builder: s.builder, entities: entities, publishedRows: publishedRows, gaps: s.gaps,
		handOver: handOver,
	}
}

// outlive returns a context that ends the given time after ctx has, or with it where the shard is
// halted.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelCauseFunc) {
	longer, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if _, halted := errors.AsType[*haltError](context.Cause(ctx)); halted {
			end(context.Cause(ctx))
			return
		}
		limit := time.AfterFunc(by, func() { end(errShutdown) })
		context.AfterFunc(longer, func() { limit.Stop() })
	})
	return longer, func(cause error) { stop(); end(cause) }
}
