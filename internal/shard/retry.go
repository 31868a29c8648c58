package shard

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/backoff"
	"bridge/internal/outage"
	"bridge/sink"
	"bridge/source"
)

// retrier waits for the source, the store and the bus on behalf of one shard: it tries again and
// again, says so in status, log and metrics, and shows meanwhile that the loop lives. It is safe
// for concurrent use.
type retrier struct {
	// table, store and view are the names that the outage log has for what the shard depends on.
	// That others can save, who need less room, says nothing about this shard: the store has its
	// name, too.
	table, store, view string
	stream, shard      string

	status  *tracker
	outages *outage.Log
	metrics *Metrics
	// sourceReady tells a source that is away from a table that cannot be read.
	sourceReady func(context.Context) error
	// every is how often a loop that waits shows that it lives.
	every time.Duration
}

func newRetrier(opts *Options, status *tracker) *retrier {
	name := opts.Stream + "/" + opts.Name
	return &retrier{
		stream: opts.Stream, shard: opts.Name,
		table: "shard " + name, store: "checkpoint/" + name, view: "checkpoint/" + name + "/view",
		status: status, outages: opts.Faults, metrics: opts.Metrics, sourceReady: opts.SourceReady, every: opts.HeartbeatEvery,
	}
}

// effort is what is tried again: in which loop, for which stage, and the name that the outage log
// has for what it depends on.
type effort struct {
	loop       loop
	stage      stage
	dependency func(context.Context) string
}

// readSource calls read until it succeeds, fails for good or ctx ends.
func (r *retrier) readSource(ctx context.Context, read func() error) error {
	return r.retry(ctx, effort{owning, reading, r.unreadable}, read)
}

// writeStore calls write again while the disk takes no writes, and ends the outage.
func (r *retrier) writeStore(ctx context.Context, l loop, write func() error) error {
	err := r.retry(ctx, effort{l, saving, func(context.Context) string { return r.store }}, write)
	if err == nil {
		r.outages.OK(r.store)
	}
	return err
}

// readStore calls read until it succeeds, fails for good or ctx ends, and ends the outage, which
// is another one than that of a store that cannot be written.
func (r *retrier) readStore(ctx context.Context, read func() error) error {
	err := r.retry(ctx, effort{owning, consulting, func(context.Context) string { return r.view }}, read)
	if err == nil {
		r.status.healed(consulting)
		r.outages.OK(r.view)
	}
	return err
}

// retry calls try until it succeeds, fails for good or ctx ends.
func (r *retrier) retry(ctx context.Context, e effort, try func() error) error {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Max: 5 * time.Second}
	for {
		err := try()
		r.status.heartbeat(e.loop)
		// What was altered is asked for in another way.
		if err == nil || ctx.Err() != nil || permanent(err) || errors.Is(err, source.ErrAltered) || e.stage == saving && !errors.Is(err, store.ErrOutage) {
			return err
		}
		r.status.fault(e.stage, err)
		if e.stage == reading {
			r.status.unread()
		}
		name := e.dependency(ctx)
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
	timer = time.AfterFunc(r.every, func() {
		mu.Lock()
		defer mu.Unlock()
		if !done && time.Since(started) < limit {
			r.status.heartbeat(l)
			timer.Reset(r.every)
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

// SourceDependency names the source as a whole in the outage log.
const SourceDependency = "source"

// unreadable names what a failed read depends on: the source when that is away as a whole, else
// the table of the shard.
func (r *retrier) unreadable(ctx context.Context) string {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Second, errors.New("the source did not answer in 3s"))
	defer cancel()
	if r.sourceReady(ctx) != nil {
		return SourceDependency
	}
	return r.table
}

// sourceAnswered ends the outages of the source and of the table.
func (r *retrier) sourceAnswered() {
	r.outages.OK(SourceDependency)
	r.outages.OK(r.table)
}

// permanent reports whether an error stops the shard until a person acts.
func permanent(err error) bool {
	for _, stop := range []error{source.ErrMissing, source.ErrDenied, source.ErrUnfit, sink.ErrClosed, store.ErrDamaged, store.ErrClosed} {
		if errors.Is(err, stop) {
			return true
		}
	}
	return false
}
