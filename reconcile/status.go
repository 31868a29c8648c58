package reconcile

import (
	"cmp"
	"log/slog"
	"sync"
	"time"

	"example.org/bridge/internal/null"
)

// Status is a snapshot of the reconcile of one shard, which /api/v1/status shows. Times are by the
// host's clock, except VerifiedThrough.
type Status struct {
	Stream string `json:"-"`
	Shard  string `json:"-"`
	// Running says that a run is under way. Waiting counts the unanswered requests, including that
	// of the run under way.
	Running bool `json:"running"`
	Waiting int  `json:"waiting"`
	// Progress is about the run under way, or the last one that was not a dry run.
	Progress
	// VerifiedThrough is the database's clock up to which all commits are known to be published.
	VerifiedThrough null.Time `json:"verifiedThrough"`
	// Guard says why no delete is published until a person agrees.
	Guard null.Text `json:"guard"`
	// LastError says why the last run was cut short.
	LastError null.Text `json:"lastError"`
	NextAt    null.Time `json:"nextAt"`
	// LastRun and LastDryRun are null before the first one since the start.
	LastRun    *Report `json:"lastRun"`
	LastDryRun *Report `json:"lastDryRun"`

	// LastEnded is when the last run on record ended; zero when none did.
	LastEnded time.Time `json:"-"`
	// Trying is when the oldest read or save under way began; zero if there is none. Each ends by
	// itself well within TryLimit.
	Trying time.Time `json:"-"`
	// Totals count since the start of the process, dry runs aside.
	Totals Totals `json:"-"`
}

// Result is what a run has found and published so far.
type Result struct {
	DryRun bool `json:"dryRun"`
	// StartedAt is when the run began, by the host's clock. In a report a resumed run has that of
	// its first part, under way that of its last one.
	StartedAt null.Time `json:"startedAt"`
	// EndedAt is null while a run is under way, and if it was cut short.
	EndedAt null.Time `json:"endedAt"`
	// Rows counts the rows read.
	Rows uint64 `json:"rows"`
	// Verdict counts the events that were published, or would be.
	Verdict
	// Absent counts the live entities that have no row.
	Absent uint64 `json:"absent"`
	// Resumed says that the run continued one that was cut short. Unjudged says why absence was not
	// judged.
	Resumed  bool      `json:"resumed"`
	Unjudged null.Text `json:"unjudged"`
}

// Progress says how far a run has come.
type Progress struct {
	Result
	// RowsOf estimates the number of Rows at the end, 0 while unknown; after a run it is Rows.
	RowsOf uint64 `json:"rowsOf"`
	// Percent is the part of the id range that is done. SecondsLeft is the time that the rest takes
	// at RowsPerSecond; 0 while unknown.
	Percent       float64 `json:"percent"`
	RowsPerSecond float64 `json:"rowsPerSecond"`
	SecondsLeft   float64 `json:"secondsLeft"`
}

// Totals count the results of all runs of a shard.
type Totals struct {
	// Ended counts the runs that ended, Failed those that were cut short, and Tripped those in
	// which the guard tripped.
	Ended, Failed, Tripped uint64
	// Scanned counts the rows read.
	Scanned uint64
	Verdict
}

// Stream is the stream of the shard.
func (r *Reconciler) Stream() string { return r.opts.Stream }

// Status returns a snapshot of the reconcile of the shard.
func (r *Reconciler) Status() Status {
	t := &r.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	status := t.status
	for began := range t.tries {
		if status.Trying.IsZero() || began.Before(status.Trying) {
			status.Trying = *began
		}
	}
	return status
}

// TryLimit is how long one read or save of a reconcile may take before it counts as hanging.
const TryLimit = 2 * time.Minute

// Still returns how long the read or save under way has taken, 0 while there is none.
func (s *Status) Still() time.Duration {
	if s.Trying.IsZero() {
		return 0
	}
	return time.Since(s.Trying)
}

// tracker keeps a Status. It is safe for concurrent use.
type tracker struct {
	mu     sync.Mutex
	status Status
	// began says that the pass under way knows its first id; scanned is how many rows it had read
	// then.
	began   bool
	scanned uint64
	// tries holds when each read and save under way began: one may read ahead.
	tries map[*time.Time]bool
}

// try records that a read or a save begins; the returned function records its end.
func (t *tracker) try() (ended func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tries == nil {
		t.tries = make(map[*time.Time]bool)
	}
	began := time.Now()
	t.tries[&began] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.tries, &began)
	}
}

func (t *tracker) begin(mode Mode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Running, t.began = true, false
	t.status.Progress = Progress{Result: Result{DryRun: mode.DryRun, StartedAt: null.At(time.Now())}}
}

func (s *Status) restore(run Run) {
	s.Guard, s.VerifiedThrough.Time = null.Text(run.Guard), run.Verified
	if !run.Ended.IsZero() {
		s.LastEnded = run.Ended
	}
	s.Progress = s.last()
}

// last is the progress of the last run. If that ended before the process started, only its end is
// known.
func (s *Status) last() (p Progress) {
	r := cmp.Or(s.LastRun, &Report{})
	p.Result = r.Result
	if r.StartedAt.IsZero() && s.LastError == "" {
		p.EndedAt.Time = s.LastEnded
	}
	if !p.EndedAt.IsZero() {
		p.Percent, p.RowsOf = 100, p.Rows
	}
	if took := r.EndedAt.Sub(r.StartedAt.Time); !p.StartedAt.IsZero() && took > 0 && !p.Resumed {
		p.RowsPerSecond = float64(p.Rows) / took.Seconds()
	}
	return p
}

func (t *tracker) progress(p *pass) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.began {
		t.began, t.scanned = true, p.run.Scanned
		t.status.Guard, t.status.VerifiedThrough.Time = null.Text(p.run.Guard), p.run.Verified
	}
	g := &t.status.Progress
	if !p.mode.DryRun {
		t.status.Totals.Scanned += p.run.Scanned - max(t.scanned, g.Rows)
	}
	g.Rows, g.Absent, g.Verdict = p.run.Scanned, p.run.Gone, p.run.Verdict
	t.estimateRemaining(g, p)
}

// estimateRemaining estimates the remaining rows from the part of the id range that is done,
// because the density of the ids is not known.
func (t *tracker) estimateRemaining(g *Progress, p *pass) {
	last := min(p.run.Bound, p.top)
	if last <= p.base || p.run.After <= p.base {
		return
	}
	share := min(1, float64(p.run.After-p.base)/float64(last-p.base))
	g.Percent, g.RowsOf = 100*share, uint64(float64(g.Rows)/share)
	elapsed := time.Since(g.StartedAt.Time).Seconds()
	if elapsed <= 0 {
		return
	}
	g.RowsPerSecond, g.SecondsLeft = float64(g.Rows-t.scanned)/elapsed, 0
	if begun := max(p.began, p.base); begun < p.run.After && p.run.After < last {
		g.SecondsLeft = elapsed * float64(last-p.run.After) / float64(p.run.After-begun)
	}
}

func (t *tracker) end(report Report, run Run, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.status
	s.Running = false
	if report.DryRun {
		s.LastDryRun = &report
		s.Progress = s.last()
		return
	}
	s.LastRun, s.LastError = &report, report.Error
	if err != nil {
		s.Totals.Failed++
		s.Progress = s.last()
		return
	}
	s.restore(run)
	s.Totals.Ended++
	if report.Guard != "" {
		s.Totals.Tripped++
	}
}

func (t *tracker) update(change func(*Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.status)
}

// Report says what a run found and published.
type Report struct {
	Stream string `json:"-"`
	Shard  string `json:"-"`
	Result
	// Error says why the run was cut short.
	Error null.Text `json:"error"`
	// Entities counts the live entities of the view that were compared.
	Entities uint64 `json:"-"`
	// Guard says why no delete is published until a person agrees.
	Guard null.Text `json:"guard"`
	// VerifiedThrough is the database's clock up to which all commits are known to be published.
	VerifiedThrough null.Time `json:"verifiedThrough"`
	// Differences are examples of the differences that a dry run found, at most MaxDifferences, in
	// the order of the scan: deletes rather than others.
	Differences []Difference `json:"differences"`
	// away says that entities were left out since another database of the stream was away.
	away bool
}

// MaxDifferences bounds the examples in a report.
const MaxDifferences = 100

// Difference is one difference that a dry run found.
type Difference struct {
	// What is "added", "modified", "deleted" or, for a row of a release stream, "missed".
	What string `json:"what"`
	// Row is the id of the row; of an entity that is gone, its last one.
	Row uint64 `json:"row"`
	// Entity is the entity key for people, its values joined by '+'; empty for a row of a release
	// stream.
	Entity string `json:"entity,omitempty"`
}

// LogValue implements slog.LogValuer.
func (r Report) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Uint64("scanned", r.Rows), slog.Uint64("entities", r.Entities),
		slog.Uint64("added", r.Added), slog.Uint64("modified", r.Modified), slog.Uint64("deleted", r.Deleted), slog.Uint64("missed", r.Missed),
		slog.Uint64("gone", r.Absent), slog.Bool("resumed", r.Resumed), slog.Duration("took", r.EndedAt.Sub(r.StartedAt.Time)),
	)
}
