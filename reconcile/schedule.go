package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Scheduled is a shard with its schedule.
type Scheduled struct {
	*Reconciler
	// Interval is the longest time between two runs. Defaults to 30 minutes.
	Interval time.Duration
	// AtOnce makes a shard without a run on record run at once, because only reconcile finds its
	// rows.
	AtOnce bool
	// Source names the database of the shard: runs in one database take turns.
	Source string
	// Paused reports whether the owner is paused: no run begins, and a request that was made before
	// waits as for a shard that does not run. Nil where it never is.
	Paused func() bool
}

func (s *Scheduled) isPaused() bool { return s.Paused != nil && s.Paused() }

// Scheduler runs the reconcilers of a process: each at a random time between half and all of its
// interval after its last run; at once if the last run is older than that or was cut short, or if
// the owner demands it; and on request. It is safe for concurrent use.
type Scheduler struct {
	log   *slog.Logger
	turns []*turn

	mu sync.Mutex
	// changed is closed and replaced when the schedule has changed.
	changed chan struct{}
}

// turn is a shard in the schedule. The mutex of the scheduler guards it.
type turn struct {
	Scheduled
	// due is when the next run begins, hold the earliest time of one that the owner demands for.
	due, hold time.Time
	// asked are the pending requests.
	asked []request
	// failure is the last error that cut a run short; logged is when it was last in the log.
	failure string
	logged  time.Time
}

type request struct {
	mode Mode
	// since is when the request was made; its timeout counts from then.
	since, from time.Time
	// taken says that its run is under way. A request that comes now needs another run, because
	// this one may have passed the rows in question.
	taken bool
}

const (
	// againAfter bounds the pause after a run that was cut short, awayPause that after one which
	// left entities out since another database of the stream was away.
	againAfter = time.Minute
	awayPause  = 10 * time.Minute
	// startTime is how long a request waits for a shard that does not run, and startPoll how often
	// it looks.
	startTime = time.Minute
	startPoll = time.Second
	// demandPoll is how often owners are asked for their demands.
	demandPoll = time.Second
	// logEvery is the least time between two log lines that say the same of a shard.
	logEvery = time.Minute
)

// NewScheduler returns a scheduler of shards.
func NewScheduler(log *slog.Logger, shards ...Scheduled) *Scheduler {
	s := &Scheduler{log: log, changed: make(chan struct{})}
	for _, shard := range shards {
		shard.Interval = cmp.Or(shard.Interval, 30*time.Minute)
		s.turns = append(s.turns, &turn{Scheduled: shard})
	}
	return s
}

// Request asks for a run of every shard of a stream that is not paused, after the requests before
// it, and returns how many shards that is; 0 if no such stream is scheduled. A run that was cut
// short is finished first. The Status of each shard has the outcome.
func (s *Scheduler) Request(stream string, mode Mode) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	shards, now := 0, time.Now()
	for _, t := range s.turns {
		if t.opts.Stream != stream || t.isPaused() {
			continue
		}
		shards++
		if !slices.ContainsFunc(t.asked, func(r request) bool { return r.mode == mode && !r.taken }) {
			t.setRequests(append(t.asked, request{mode: mode, since: now, from: now}))
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return shards
}

func (t *turn) setRequests(requests []request) {
	t.asked = requests
	t.tracker.update(func(s *Status) { s.Waiting = len(requests) })
}

// setDue sets when the next run begins. The caller holds mu.
func (t *turn) setDue(due time.Time) {
	t.due = due
	t.tracker.update(func(s *Status) { s.NextAt.Time = due })
}

// Run runs the reconciles that are due, one at a time in each database, until ctx ends. It returns
// nil once all runs have ended.
func (s *Scheduler) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	bySource := map[string][]*turn{}
	for _, t := range s.turns {
		bySource[t.Source] = append(bySource[t.Source], t)
	}
	for _, turns := range bySource {
		workers.Go(func() { s.runSource(ctx, turns) })
	}
	workers.Wait()
	return nil
}

func (s *Scheduler) runSource(ctx context.Context, turns []*turn) {
	for _, t := range turns {
		s.open(ctx, t)
	}
	for ctx.Err() == nil {
		t, asked, wait, changed := s.next(turns)
		if t == nil {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
			case <-changed:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		mode := Mode{}
		if asked != nil {
			mode = *asked
		}
		report, err := t.Run(ctx, mode)
		if ctx.Err() != nil {
			return
		}
		s.done(t, asked != nil, report, err)
	}
}

// open sets when the first run of a shard is due.
func (s *Scheduler) open(ctx context.Context, t *turn) {
	last, err := t.lastRun(ctx)
	if err != nil {
		// The run reports the error again.
		last = Run{}
	}
	t.tracker.update(func(s *Status) { s.restore(last) })
	due, began := last.Ended.Add(jitter(t.Interval)), !last.Started.IsZero()
	switch {
	case began && (last.Ended.IsZero() || time.Since(last.Ended) >= t.Interval), !began && t.AtOnce:
		due = time.Now()
	case !began, last.Ended.After(time.Now()):
		// Or the clock was set back since.
		due = time.Now().Add(jitter(t.Interval))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.setDue(due)
}

// jitter returns a random time between half and all of interval, so that shards that began together
// spread out.
func jitter(interval time.Duration) time.Duration {
	return interval/2 + rand.N(interval/2+1)
}

// next returns the shard to run now and what its first request asks for, nil if its time has come
// without one. If there is no shard to run, it returns how long to wait, unless the schedule
// changes. Requests go first.
func (s *Scheduler) next(turns []*turn) (now *turn, asked *Mode, wait time.Duration, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var asks *turn
	wait = demandPoll
	for _, t := range turns {
		if t.isPaused() {
			if old := func(r request) bool { return time.Since(r.since) >= startTime }; slices.ContainsFunc(t.asked, old) {
				// Invariant 5: agreement to deletes does not hold much later.
				t.setRequests(slices.DeleteFunc(t.asked, old))
			}
			continue
		}
		if len(t.asked) > 0 && (asks == nil || t.asked[0].from.Before(asks.asked[0].from)) {
			asks = t
		}
		if until := time.Until(t.begins()); now == nil || until < wait {
			now, wait = t, min(until, demandPoll)
		}
	}
	if asks != nil {
		if until := time.Until(asks.asked[0].from); until <= 0 {
			asks.asked[0].taken = true
			mode := asks.asked[0].mode
			return asks, &mode, 0, nil
		} else if wait > 0 {
			wait = min(wait, until)
		}
	}
	if wait > 0 {
		now = nil
	}
	return now, nil, wait, s.changed
}

// begins returns when the next scheduled run begins. The caller holds mu.
func (t *turn) begins() time.Time {
	if !t.hold.Before(t.due) {
		return t.due
	}
	if w := demandOf(t.opts.Owner); !w.due || w == t.answered {
		return t.due
	}
	if _, running := t.opts.Owner.Reach(); !running {
		return t.due
	}
	return t.hold
}

// done records how a run ended and when the next one begins. asked says that it answers the first
// request: that stays where the run only finished an earlier one, or the shard is still starting.
func (s *Scheduler) done(t *turn, asked bool, report Report, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, notRunning := time.Now(), errors.Is(err, ErrNotRunning)
	if asked {
		r := &t.asked[0]
		switch r.taken = false; {
		case notRunning && time.Since(r.since) < startTime:
			r.from = now.Add(startPoll)
		case err == nil && report.Resumed:
		default:
			t.setRequests(t.asked[1:])
		}
	}
	pause := t.Interval
	switch {
	case notRunning:
		pause = 10 * startPoll
	case err != nil:
		pause = againAfter
	case report.away:
		pause = min(pause, awayPause)
	}
	switch {
	case report.DryRun:
	case err == nil && report.Resumed && now.Sub(report.StartedAt.Time) > t.Interval:
		t.setDue(now)
	default:
		if t.setDue(now.Add(jitter(pause))); err != nil || report.away {
			t.hold = t.due
		}
	}
	if err == nil {
		t.failure = ""
	} else if !notRunning && (err.Error() != t.failure || now.Sub(t.logged) >= logEvery) {
		t.failure, t.logged = err.Error(), now
		s.log.Warn("reconcile was cut short", "stream", t.opts.Stream, "shard", t.opts.Shard, "error", err)
	}
}
