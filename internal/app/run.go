package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// restPolls bounds how often a second tables are polled that have had nothing new for a while.
const restPolls = 1000

// Run runs the app until ctx is cancelled, then publishes and saves the batches in flight within
// the shutdown timeout. An error means that the shutdown was not orderly.
func (a *App) Run(ctx context.Context) error { return a.run(ctx, a.scheduler.Run) }

func (a *App) run(ctx context.Context, beside func(context.Context) error) error {
	return a.elected(ctx, func(ctx context.Context) error { return a.work(ctx, beside) })
}

// work tails all tables, and runs the function beside, until ctx is cancelled; beside must end with
// its context. Then the shards publish what is in flight, while catch-up goes on, and what was
// applied is made durable. If anything returns an error, the process has to be restarted: work then
// shuts down the others in order.
func (a *App) work(ctx context.Context, beside func(context.Context) error) error {
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	start := func(ctx context.Context, group *errgroup.Group, one func(context.Context) error) {
		group.Go(func() error {
			err := one(ctx)
			if err != nil {
				fail(err)
			}
			return err
		})
	}
	var tailing, recovering, saving errgroup.Group
	later := context.WithoutCancel(ctx)
	saves, endSaving := context.WithCancel(later)
	defer endSaving()
	start(saves, &saving, a.committer.Run)
	if a.copies != nil {
		start(saves, &saving, a.copies.Run)
		start(saves, &saving, a.generations.Run)
	}
	recovers, endRecovering := context.WithCancel(later)
	defer endRecovering()
	start(recovers, &recovering, a.catchUp)
	start(recovers, &recovering, a.recovery.Run)
	for _, s := range a.streams {
		if s.movers != nil {
			start(recovers, &recovering, func(ctx context.Context) error { return s.move(ctx, &a.parts) })
		}
	}
	start(running, &tailing, func(ctx context.Context) error { return shard.NewScheduler(restPolls).Run(ctx, a.shards...) })
	for _, s := range a.streams {
		if s.FullListInterval > 0 {
			start(running, &tailing, func(ctx context.Context) error { return a.list(ctx, s) })
		}
	}
	start(running, &tailing, a.watch)
	start(running, &tailing, a.admissions.compareAway)
	start(running, &tailing, func(ctx context.Context) error {
		a.begin(ctx, a.shards, a.sources)
		return nil
	})
	start(running, &tailing, beside)
	err := tailing.Wait()
	endRecovering()
	err = errors.Join(err, recovering.Wait())
	endSaving()
	return errors.Join(err, saving.Wait())
}

// catchUp reads what the bus holds. What it has read stays when ctx ends first.
func (a *App) catchUp(ctx context.Context) error {
	var err error
	switch {
	case a.generations == nil:
	case a.opts.inside:
		if err = a.generations.Last(ctx); errors.Is(err, buscopy.ErrNumber) {
			err = option.Errorf("%w: see %s", err, option.Share)
		} else if err == nil {
			// It gives further signs.
			_ = a.generations.Sign(ctx)
		}
	default:
		err = a.generations.Join(ctx)
	}
	if err == nil {
		err = a.recovery.Start(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watch asks source and bus every watchEvery, and waits watchWithin for an answer, a little longer
// than sinks do: an outage is known within 5 s of its beginning.
const (
	watchEvery  = time.Second
	watchWithin = 3500 * time.Millisecond
)

var errSlowProbe = fmt.Errorf("no answer within %v", watchWithin)

// watch gives whatever waits for source or bus a reason, in log, status and readiness, until ctx
// ends; then it returns nil. Shards and sinks report the errors that they meet. watch finds what
// hangs without an error, and what nobody has met yet.
func (a *App) watch(ctx context.Context) error {
	bus := a.opts.Config.Sink.Scheme + outage.Probed
	for {
		asking, cancel := context.WithTimeoutCause(ctx, watchWithin, errSlowProbe)
		fromSources, fromBus := a.probe(asking)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		for i, d := range a.sources.all {
			a.note(d.Label()+outage.Probed, fromSources[i])
			a.sources.note(d, fromSources[i])
		}
		if !a.opts.Config.Sink.LogsOutages {
			a.note(bus, fromBus)
		}
		if backoff.Pause(ctx, watchEvery) != nil {
			return nil
		}
	}
}

// note has an answer begin or end an outage.
func (a *App) note(dependency string, err error) {
	if err == nil {
		a.faults.OK(dependency)
		return
	}
	a.faults.Fail(dependency, err)
}

// nameWaits gives tables that were not read yet the outages as the reason, where there are any.
func (h health) nameWaits(status *httpapi.Status) {
	for i := range status.Streams {
		shards := status.Streams[i].Shards
		for j := range shards {
			s := &shards[j]
			if s.State != shard.Starting || s.LastError != "" {
				continue
			}
			source := status.Source
			if len(status.Sources) > 0 {
				d, _ := h.sources.of(s.Shard)
				source = &status.Sources[slices.Index(h.sources.all, d)]
			}
			if away := namesAway(status, source); len(away) > 0 {
				s.Reason, s.Remedy = null.Text("the table was not read yet: it waits for "+strings.Join(away, "; and for ")), waitingRemedy
			}
		}
	}
}

// namesAway names what does not answer of a source and what all tables depend on, with the errors.
func namesAway(s *httpapi.Status, source *httpapi.DependencyStatus) (away []string) {
	for _, one := range []struct {
		name  string
		state *httpapi.DependencyStatus
	}{{"the source", source}, {"the bus", s.Bus}, {"the checkpoint", s.Checkpoint}, {"the progress on the bus", s.Progress}} {
		if d := one.state; d != nil && d.Error != "" {
			away = append(away, one.name+": "+string(d.Error))
		}
	}
	return away
}

// queue has the shards that had rows before a reload begin first, and then the others of each
// source a few at a time: so rows of a busy table wait for no more than a moment, however many
// tables there are. The zero value has all begin at once.
type queue struct {
	busy map[store.Key]bool
	// turns take the others of each source, each once its stream has caught up and its source was
	// compared: those of one source do not wait for one that is away.
	turns map[*database]chan store.Key
}

const (
	// beginsWithin is how long a shard may take to begin before the next one does.
	beginsWithin = 5 * time.Second
	// beginsAtOnce is how many of the others begin at once: fewer than there are reads.
	beginsAtOnce = maxReads / 2
)

func (q *queue) queued(recovery shard.Recovery, key store.Key, d *database) shard.Recovery {
	if len(q.busy) == 0 || q.busy[key] {
		return recovery
	}
	if q.turns[d] == nil {
		q.turns[d] = make(chan store.Key)
	}
	return &queued{Recovery: recovery, key: key, turns: q.turns[d]}
}

func (q *queue) begin(ctx context.Context, shards []*shard.Shard, from *Sources) {
	all, first := make(map[store.Key]*shard.Shard, len(shards)), make(map[*database][]*shard.Shard)
	for _, sh := range shards {
		key := keyOf(sh)
		if all[key] = sh; q.busy[key] {
			d, _ := from.of(key.Shard)
			first[d] = append(first[d], sh)
		}
	}
	var lines sync.WaitGroup
	for d, turns := range q.turns {
		lines.Go(func() {
			begins := first[d]
			for most := 1; awaitFewer(ctx, &begins, most) == nil; most = beginsAtOnce {
				select {
				case key := <-turns:
					begins = append(begins, all[key])
				case <-ctx.Done():
					return
				}
			}
		})
	}
	lines.Wait()
}

// awaitFewer waits until fewer than so many shards of a list begin, for a while at most, and drops
// the others from the list.
func awaitFewer(ctx context.Context, begins *[]*shard.Shard, most int) error {
	for began := time.Now(); ; {
		*begins = slices.DeleteFunc(*begins, func(sh *shard.Shard) bool { return sh.Status().State != shard.Starting })
		if len(*begins) < most {
			return nil
		}
		if time.Since(began) > beginsWithin {
			*begins = nil
			return nil
		}
		if err := backoff.Pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

func keyOf(sh *shard.Shard) store.Key {
	s := sh.Status()
	return store.Key{Stream: s.Stream, Shard: s.Shard}
}

// queued is the recovery of a shard that begins when it is its turn.
type queued struct {
	shard.Recovery
	key   store.Key
	turns chan<- store.Key
	begun atomic.Bool
}

func (q *queued) Wait(ctx context.Context, stream string) error {
	if err := q.Recovery.Wait(ctx, stream); err != nil || q.begun.Load() {
		return err
	}
	select {
	case q.turns <- q.key:
		q.begun.Store(true)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// newRecovery returns what reads the bus, where that can be read back (rule 24), and stops the
// shards of streams that must not publish any more.
func (a *App) newRecovery() *stream.CatchUp {
	cfg, p, streams := a.opts.Config, &a.parts, a.streams
	o := stream.Options{
		Reader: p.reader, Committer: p.committer, Image: p.image, Domain: cfg.DomainID, Log: p.logger, Turn: a.turn(), Over: a.opts.former.superseded,
		Share: cfg.Share.Share,
		Superseded: func(err error) {
			for _, s := range streams {
				s.stop(err)
			}
			select {
			case a.superseded <- err:
			default:
				// An app before this one was superseded already.
			}
		},
		Stopped: func(name string, err error) { streamOf(streams, name).stop(err) },
	}
	if bus, ok := p.sink.(sink.Transactional); ok && cfg.Sink.ExactlyOnce {
		o.Fence = bus.Fence
	}
	if p.copies != nil {
		o.Permit = p.generations.Enter
		if fence := o.Fence; fence != nil {
			o.Fence = permitted(p.generations.Permit, fence)
		}
		o.Copy = func(ctx context.Context, stream string) (stream.Copy, error) {
			return copyOf(ctx, p.copies, cfg, cfg.Stream(stream))
		}
	}
	p.admissions = newAdmissions(cfg, p, streams)
	if p.reader != nil {
		o.Confirm = p.admissions.confirm
	}
	if confirm := o.Confirm; p.copies != nil && cfg.Share.One() {
		o.Alone = p.generations.Alone
		o.Confirm = func(ctx context.Context, stream string, turn bool) error {
			if err := p.generations.ReadFormer(ctx, turn); err != nil {
				return err
			}
			return confirm(ctx, stream, turn)
		}
	}
	for _, s := range streams {
		one := s.catchUp(cfg, p)
		before, published := a.opts.former.published[s.Name]
		one.Ours = published && slices.Equal(before, one.Destinations)
		o.Streams = append(o.Streams, one)
	}
	return stream.New(o)
}

// permitted is fence, of a process that may still work by its number of shares: else one that stood
// still would take over from a process of a later generation before it ends.
func permitted(permit, fence func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := permit(ctx); err != nil {
			return fmt.Errorf("%w: %w", stream.ErrStartAgain, err)
		}
		return fence(ctx)
	}
}
