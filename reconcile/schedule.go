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
}

// Scheduler runs the reconcilers of a process: each at a random time between half and all of its
// interval after its last run; at once if the last run is older than that or was cut short, or if
// the owner wishes it; and on request. It is safe for concurrent use.
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
	// due is when the next run begins, hold the earliest time of one that the owner wishes for.
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
	// againAfter bounds the pause after a run that was cut short.
	againAfter = time.Minute
	// startTime is how long a request waits for a shard that does not run, and startPoll how often
	// it looks.
	startTime = time.Minute
	startPoll = time.Second
	// wishPoll is how often owners are asked for their wishes.
	wishPoll = time.Second
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

// Request asks for a run of every shard of a stream, after the requests before it, and returns how
// many shards that is; 0 if no such stream is scheduled. A run that was cut short is finished
// first. The Status of each shard has the outcome.
func (s *Scheduler) Request(stream string, mode Mode) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	shards, now := 0, time.Now()
	for _, t := range s.turns {
		if t.opts.Stream != stream {
			continue
		}
		shards++
		if !slices.ContainsFunc(t.asked, func(r request) bool { return r.mode == mode && !r.taken }) {
			t.setRequests(append(t.asked, request{mode: mode, since: now, from: now}))
		}
	}
	s.stir()
	return shards
}

// setRequests sets the pending requests.
func (t *turn) setRequests(requests []request) {
	t.asked = requests
	t.tracker.update(func(s *Status) { s.Waiting = len(requests) })
}

// setDue sets when the next run begins. The caller holds mu.
func (t *turn) setDue(due time.Time) {
	t.due = due
	t.tracker.update(func(s *Status) { s.Next = due })
}

// stir wakes the goroutines that wait for a run. The caller holds mu.
func (s *Scheduler) stir() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Run runs the reconciles that are due, one at a time in each database, until ctx ends. It returns
// nil once all runs have ended.
func (s *Scheduler) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	for _, name := range s.sources() {
		workers.Go(func() { s.runSource(ctx, name) })
	}
	workers.Wait()
	return nil
}

func (s *Scheduler) sources() []string {
	var names []string
	for _, t := range s.turns {
		names = append(names, t.Source)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// runSource runs the shards of one database.
func (s *Scheduler) runSource(ctx context.Context, name string) {
	for _, t := range s.turns {
		if t.Source == name {
			s.open(ctx, t)
		}
	}
	for ctx.Err() == nil {
		t, asked, wait := s.next(name)
		if t == nil {
			wait(ctx)
			continue
		}
		mode := Mode{}
		if asked != nil {
			mode = asked.mode
		}
		report, err := t.Run(ctx, mode)
		if ctx.Err() != nil {
			return
		}
		s.done(t, asked, report, err)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case !last.Started.IsZero() && last.Ended.IsZero(), last.Started.IsZero() && t.AtOnce:
		t.setDue(now)
	case last.Started.IsZero():
		t.setDue(now.Add(jitter(t.Interval)))
	case now.Sub(last.Ended) >= t.Interval:
		t.setDue(now)
	default:
		t.setDue(last.Ended.Add(jitter(t.Interval)))
	}
}

// jitter returns a random time between half and all of interval, so that shards that began together
// spread out.
func jitter(interval time.Duration) time.Duration {
	return interval/2 + rand.N(interval/2+1)
}

// next returns the shard of a database to run now and the request that this answers, nil if its
// time has come without one. If there is no shard to run, it returns how to wait for one. Requests
// go first.
func (s *Scheduler) next(name string) (now *turn, asked *request, wait func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var asks, dues *turn
	var first time.Time
	for _, t := range s.turns {
		if t.Source != name {
			continue
		}
		if len(t.asked) > 0 && (asks == nil || t.asked[0].from.Before(asks.asked[0].from)) {
			asks = t
		}
		if at := t.begins(); dues == nil || at.Before(first) {
			dues, first = t, at
		}
	}
	until := min(time.Until(first), wishPoll)
	if asks != nil {
		if time.Until(asks.asked[0].from) <= 0 {
			asks.asked[0].taken = true
			r := asks.asked[0]
			return asks, &r, nil
		}
		until = min(until, time.Until(asks.asked[0].from))
	}
	if until <= 0 {
		return dues, nil, nil
	}
	changed := s.changed
	return nil, nil, func(ctx context.Context) {
		timer := time.NewTimer(until)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
	}
}

// begins returns when the next run begins that nobody has asked for. The caller holds mu.
func (t *turn) begins() time.Time {
	if !t.hold.Before(t.due) {
		return t.due
	}
	if w := wishOf(t.opts.Owner); !w.due || w == t.answered {
		return t.due
	}
	if _, running := t.opts.Owner.Reach(); !running {
		return t.due
	}
	return t.hold
}

// done records how a run ended and when the next one begins.
func (s *Scheduler) done(t *turn, asked *request, report Report, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if asked != nil {
		s.answer(t, asked, report, err)
	}
	switch {
	case asked != nil && asked.mode.DryRun:
	case errors.Is(err, ErrNotRunning):
		t.setDue(now.Add(jitter(10 * startPoll)))
		t.hold = t.due
	case err != nil:
		t.setDue(now.Add(jitter(againAfter)))
		t.hold = t.due
	case report.Resumed && now.Sub(report.Started) > t.Interval:
		t.setDue(now)
	default:
		t.setDue(now.Add(jitter(t.Interval)))
	}
	if err == nil {
		t.failure = ""
	} else if !errors.Is(err, ErrNotRunning) && (err.Error() != t.failure || now.Sub(t.logged) >= logEvery) {
		t.failure, t.logged = err.Error(), now
		s.log.Warn("reconcile was cut short", "stream", t.opts.Stream, "shard", t.opts.Shard, "error", err)
	}
}

// answer removes a request that was answered. It keeps one whose run only finished an earlier run,
// or whose shard is still starting.
func (s *Scheduler) answer(t *turn, asked *request, report Report, err error) {
	i := slices.IndexFunc(t.asked, func(r request) bool { return r.taken })
	t.asked[i].taken = false
	switch {
	case errors.Is(err, ErrNotRunning) && time.Since(asked.since) < startTime:
		t.asked[i].from = time.Now().Add(startPoll)
	case err == nil && report.Resumed:
	default:
		t.setRequests(slices.Delete(t.asked, i, i+1))
	}
}
