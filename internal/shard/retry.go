package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/published"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// retrier waits for the source, the store and the bus on behalf of one shard: it tries again and
// again, says so in status, log and metrics, and shows meanwhile that the loop lives. It is safe
// for concurrent use.
type retrier struct {
	// source, table, store and view are the names that the outage log has for what the shard
	// depends on. That others can save, who need less room, says nothing about this shard: the
	// store has its name, too.
	source, table, store, view string
	stream, shard              string

	status  *tracker
	outages *outage.Log
	metrics *Metrics
	// sourceReady tells a source that is away from a table that cannot be read.
	sourceReady func(context.Context) error
}

// heartbeatEvery is how often a loop that waits shows that it lives.
const heartbeatEvery = 5 * time.Second

func newRetrier(opts *Options, status *tracker) *retrier {
	name := opts.Stream + "/" + opts.Name
	return &retrier{
		stream: opts.Stream, shard: opts.Name, source: opts.SourceName,
		table: "shard " + name, store: "checkpoint/" + name, view: "checkpoint/" + name + "/view",
		status: status, outages: opts.Faults, metrics: opts.Metrics, sourceReady: opts.SourceReady,
	}
}

// writeStore calls write again while the disk takes no writes, and ends the outage.
func (r *retrier) writeStore(ctx context.Context, l loop, write func() error) error {
	err := r.retry(ctx, l, saving, write)
	if err == nil {
		r.outages.OK(r.store)
	}
	return err
}

// readStore calls read until it succeeds, fails for good or ctx ends, and ends the outage, which
// is another one than that of a store that cannot be written.
func (r *retrier) readStore(ctx context.Context, read func() error) error {
	err := r.retry(ctx, owning, consulting, read)
	if err == nil {
		r.status.healed(consulting)
		r.outages.OK(r.view)
	}
	return err
}

// unread notes that the store could not be read, until readStore succeeds.
func (r *retrier) unread(err error) {
	r.status.fault(consulting, err)
	r.outages.Fail(r.view, err)
	r.metrics.Retry(r.series(r.view), err)
}

// retry calls try, in a loop and for a stage, until it succeeds, fails for good or ctx ends.
func (r *retrier) retry(ctx context.Context, l loop, s stage, try func() error) error {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 5 * time.Second}
	for {
		err := try()
		r.status.heartbeat(l)
		// What was altered is asked for in another way.
		if err == nil || ctx.Err() != nil || permanent(err) || errors.Is(err, source.ErrAltered) || s == saving && !errors.Is(err, store.ErrOutage) {
			return err
		}
		r.status.fault(s, err)
		name := r.view
		switch s {
		case reading:
			r.status.unread()
			name = r.unreadable(ctx)
		case saving:
			name = r.store
		}
		r.outages.Fail(name, err)
		r.metrics.Retry(r.series(name), err)
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// series returns the name that the metrics have for a dependency: by default the shards of a stream
// are one.
func (r *retrier) series(dependency string) string {
	if r.metrics.byShard {
		return dependency
	}
	return strings.Replace(dependency, r.stream+"/"+r.shard, r.stream, 1)
}

// forEver is the limit of a wait for something that may be away for any time.
const forEver = time.Duration(math.MaxInt64)

// wait calls do, and shows that the loop lives while do waits for something, for up to limit.
func (r *retrier) wait(l loop, limit time.Duration, do func() error) error {
	started := time.Now()
	var mu sync.Mutex
	done := false
	var timer *time.Timer
	mu.Lock()
	timer = time.AfterFunc(heartbeatEvery, func() {
		mu.Lock()
		defer mu.Unlock()
		if !done && time.Since(started) < limit {
			r.status.heartbeat(l)
			timer.Reset(heartbeatEvery)
		}
	})
	mu.Unlock()
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		done = true
		timer.Stop()
	}()
	return do()
}

// SourceDependency names the source as a whole in the outage log, where it is the only one.
const SourceDependency = "source"

// unreadable names what a failed read depends on: the source when that is away as a whole, else
// the table of the shard.
func (r *retrier) unreadable(ctx context.Context) string {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Second, errors.New("the source did not answer in 3s"))
	defer cancel()
	if r.sourceReady(ctx) != nil {
		return r.source
	}
	return r.table
}

// loop names one of the loops of a shard. Each is watched by itself: one that makes progress does
// not hide another that hangs.
type loop int

// The loops. Before a shard has an owner, and while it is stopped, the owner's is the shard's own.
const (
	owning loop = iota
	publishing
	loops
)

func (l loop) String() string { return [...]string{"owner", "publisher"}[l] }

// permanent reports whether an error stops the shard until a person acts.
func permanent(err error) bool {
	return source.Stops(err) || errors.Is(err, sink.ErrClosed) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrClosed)
}

// ErrIDsReused is returned when the table hands out ids at or below the position: it was truncated,
// restored or its counter was reset. Rows under such ids would never be seen by the tail.
var ErrIDsReused = errors.New("the table uses ids again that were published")

// reusedError says since when and why ids are used again, and what a person is to do. It is
// ErrIDsReused. server is the one that has shown it; saved says that the store has the reason.
type reusedError struct {
	reason, remedy, server string
	saved                  bool
}

// reused returns a reusedError of now: the table may be filled again before somebody reads it.
func (p *publishedRows) reused(survivor uint64, reason string, args ...any) *reusedError {
	return &reusedError{
		reason: fmt.Sprintf("at %s ", time.Now().UTC().Format(time.RFC3339)) + fmt.Sprintf(reason, args...),
		remedy: p.remedy(survivor), server: p.seen.Server,
	}
}

func (e *reusedError) Error() string { return e.Named(option.Short) }

// Named returns the text of Error with the setting as naming has it. What a command has set is in
// the checkpoint alone, which may be gone with a pod.
func (e *reusedError) Named(naming option.Naming) string {
	text := fmt.Sprintf("%v: %s %s", ErrIDsReused, e.reason, e.remedy)
	if strings.Contains(e.remedy, "bridge checkpoint set") {
		text += option.Sprintf(naming, ". Type it where this checkpoint is; a pod without a volume forgets it, unless the checkpoint is on the bus (%s=bus:)", option.CheckpointURL)
	}
	return text
}

func (*reusedError) Unwrap() error { return ErrIDsReused }

// survivor returns the highest row that is still as it was published, 0 where none is known, and
// the server that has answered.
func (p *publishedRows) survivor(ctx context.Context) (id uint64, server string, err error) {
	c, server, err := p.read(ctx, published.Check{}, p.log.Rows())
	if err == nil && c != nil {
		id = c.Survivor()
	}
	return id, server, err
}

// remedy says what a person is to do where ids above survivor are used again; 0 where that is not
// known.
func (p *publishedRows) remedy(survivor uint64) string {
	stream, shard := p.opts.Stream, p.opts.Name
	switch {
	case !p.release():
		return fmt.Sprintf("If the table is what it should be, bridge reconcile --allow-deletes %s publishes what has changed in it and what is gone", stream)
	case survivor > 0:
		return fmt.Sprintf("Stop bridge, then to publish all rows behind id %d, the last one that is still as it was published: bridge checkpoint set %s %s %d; "+
			"to publish all of the table: bridge checkpoint set %s %s 0", survivor, stream, shard, survivor, stream, shard)
	}
	return fmt.Sprintf("Stop bridge, then to publish all of the table: bridge checkpoint set %s %s 0; to go on behind another id: the same with that id", stream, shard)
}

// saveStop has the store know why the shard must not go on, so that only a command ends that: once
// the table is filled again it may show nothing any more. What a server shows that does not take
// the writes may be that it lags: see caughtUp.
func (s *Shard) saveStop(ctx context.Context, err error) error {
	reused, ok := errors.AsType[*reusedError](err)
	if !ok || reused.saved {
		return nil
	}
	if !s.server.traits.Writer || !s.server.knows(reused.server) {
		reused.remedy = "The server takes no writes, as far as can be told: if it lags, the stream goes on by itself. " + reused.remedy
		return nil
	}
	list, err := s.opts.Feed.PublishedRowsOf(ctx, s.opts.Name, s.opts.PublishedRows)
	if err != nil {
		return err
	}
	list.Stop(reused.reason)
	if err := s.opening.sync(ctx, store.ShardChange{Key: s.opts.key(), Parts: list.Changed()}); err != nil {
		return err
	}
	reused.saved = true
	return nil
}

// caughtUp reports whether err is of a server that lagged: the row that was published last is there
// as it was. Ids that are used again leave no such row.
func caughtUp(ctx context.Context, s *Shard, err error) bool {
	if reused, ok := errors.AsType[*reusedError](err); !ok || reused.saved || s.opts.SourceReady(ctx) != nil {
		return false
	}
	list, err := s.opts.Feed.PublishedRowsOf(ctx, s.opts.Name, s.opts.PublishedRows)
	if err != nil || len(list.Rows()) == 0 {
		return false
	}
	// Others may wait for the shard.
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Recheck, errBusy)
	defer cancel()
	survivor, _, err := newPublished(s.server, nil, s.gaps, list).survivor(ctx)
	return err == nil && survivor == list.Rows()[len(list.Rows())-1].ID
}

// Accept says that a person has agreed to the table as it is. A capability shard that stopped
// because ids are used again then reads all of it, and what its view knows already it does not
// publish again. It reports whether the shard had stopped for that.
func (s *Shard) Accept() bool { return s.opts.Kind == event.Capability && s.status.accept() }

// ending is the cause, where there is one, why no attempt is to run. It ends the one that runs. It
// is safe for concurrent use.
type ending struct {
	mu    sync.Mutex
	cause error
	end   context.CancelCauseFunc
}

// begin returns a context for an attempt, which ends for the cause.
func (e *ending) begin(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.end = end; e.cause != nil {
		end(e.cause)
	}
	return ctx, end
}

// set has a cause be the one from now on, nil for none. The caller holds mu.
func (e *ending) set(cause error) {
	if e.cause = cause; cause != nil && e.end != nil {
		e.end(cause)
	}
}

// reason returns the cause, else err.
func (e *ending) reason(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return cmp.Or(e.cause, err)
}

// haltError says why a shard must not publish any more. It ends what is in flight at once.
type haltError struct{ error }

func (e *haltError) Unwrap() error { return e.error }

// Stop has the shard publish nothing any more, for as long as the process lives: another one has
// taken over, or its stream cannot catch up. Its status says err. It may come before Run.
func (s *Shard) Stop(err error) {
	// An idle shard has to end, too.
	defer s.wake()
	s.halt.mu.Lock()
	defer s.halt.mu.Unlock()
	if s.halt.cause == nil {
		s.halt.set(&haltError{err})
	}
}
