package reconcile

import (
	"log/slog"
	"sync"
	"time"
)

// Status is a snapshot of the reconcile of one shard.
type Status struct {
	Stream, Shard string
	// Running says that a run is under way. Waiting counts the pending requests.
	Running bool
	Waiting int
	// Progress is the progress of the run under way, or of the last one.
	Progress Progress
	// Last is the report of the last run in this process that ended or was cut short, without dry
	// runs; zero before the first.
	Last Report
	// LastDry is the same for dry runs.
	LastDry Report
	// LastEnded is when the last run on record ended, by the host's clock; zero when none did.
	LastEnded time.Time
	// LastError says why the last run was cut short; empty if it was not.
	LastError string
	// Guard says why no delete is published until a person agrees; empty while the guard has not
	// tripped. While it is set the stream is degraded.
	Guard string
	// Verified is the database's clock up to which all commits are known to be published; zero
	// before the first run that ended well.
	Verified time.Time
	// Trying is when the oldest read or save under way began, by the host's clock; zero if there is
	// none. Each ends by itself well within TryLimit.
	Trying time.Time
	// Next is when the next scheduled run is due, by the host's clock; zero if none is.
	Next time.Time
	// Totals count since the start of the process, dry runs aside.
	Totals Totals
}

// Progress says how far a run has come.
type Progress struct {
	Mode Mode
	// Started is when it began, or was resumed, in this process.
	Started time.Time
	// Scanned counts the rows that were read.
	Scanned uint64
	// Share is the part of the id range that is done, from 0 to 1. Estimated is the number of rows
	// that this foretells; 0 while unknown.
	Share     float64
	Estimated uint64
	// Rate is the rows read a second so far. Left is the time that the rest takes at this rate; 0
	// while unknown.
	Rate float64
	Left time.Duration
	// Gone counts the live entities without a row so far.
	Gone uint64
	// Verdict counts the events published so far.
	Verdict
}

// Totals count the results of all runs of a shard.
type Totals struct {
	// Ended counts the runs that ended, Failed those that were cut short, and Tripped those in
	// which the guard tripped.
	Ended, Failed, Tripped uint64
	// Dry counts all dry runs.
	Dry uint64
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
	t.status.Progress = Progress{Mode: mode, Started: time.Now()}
}

func (s *Status) restore(run Run) {
	s.Guard, s.Verified = run.Guard, run.Verified
	if !run.Ended.IsZero() {
		s.LastEnded = run.Ended
	}
}

func (t *tracker) progress(p *pass) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.began {
		t.began, t.scanned = true, p.run.Scanned
		t.status.Guard, t.status.Verified = p.run.Guard, p.run.Verified
	}
	g := &t.status.Progress
	if !p.mode.DryRun {
		t.status.Totals.Scanned += p.run.Scanned - max(t.scanned, g.Scanned)
	}
	g.Scanned, g.Gone = p.run.Scanned, p.gone
	g.Verdict = p.run.Verdict
	t.foresee(g, p)
}

// foresee estimates the remaining rows from the part of the id range that is done, because the
// density of the ids is not known.
func (t *tracker) foresee(g *Progress, p *pass) {
	last := min(p.run.Bound, p.top)
	if last <= p.base || p.reached <= p.base {
		return
	}
	g.Share = min(1, float64(p.reached-p.base)/float64(last-p.base))
	g.Estimated = uint64(float64(g.Scanned) / g.Share)
	elapsed := time.Since(g.Started)
	if elapsed <= 0 {
		return
	}
	g.Rate = float64(g.Scanned-t.scanned) / elapsed.Seconds()
	g.Left = 0
	if begun := max(p.began, p.base); begun < p.reached && p.reached < last {
		g.Left = time.Duration(float64(elapsed) * float64(last-p.reached) / float64(p.reached-begun))
	}
}

func (t *tracker) end(report Report, run Run, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.status
	s.Running, s.Progress.Left = false, 0
	if report.DryRun {
		s.LastDry = report
		s.Totals.Dry++
		return
	}
	s.Last, s.LastError = report, report.Error
	if err != nil {
		s.Totals.Failed++
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
	Stream, Shard string
	// Started and Ended are by the host's clock. Ended is zero if the run was cut short. A resumed
	// run has the Started of its first part.
	Started, Ended time.Time
	DryRun         bool
	Resumed        bool
	// Scanned counts the rows read, Entities the live entities of the view compared with them.
	Scanned, Entities uint64
	// Verdict counts the events that the owner published; in a dry run, those that it would
	// publish.
	Verdict
	// Gone counts the live entities of the view without a row.
	Gone uint64
	// Guard says why no delete is published until a person agrees; empty if the guard did not trip.
	Guard string
	// Unjudged says why absence was not judged in this run; empty if it was.
	Unjudged string
	// Error says, in a Status, why the run was cut short; empty if it was not.
	Error string
	// Verified is the database's clock up to which all commits are known to be published.
	Verified time.Time
	// Differences are examples of the differences that a dry run found, at most MaxDifferences, in
	// the order of the scan: deletes rather than others.
	Differences []Difference
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
		slog.Uint64("scanned", r.Scanned), slog.Uint64("entities", r.Entities),
		slog.Uint64("added", r.Added), slog.Uint64("modified", r.Modified), slog.Uint64("deleted", r.Deleted), slog.Uint64("missed", r.Missed),
		slog.Uint64("gone", r.Gone), slog.Bool("resumed", r.Resumed), slog.Duration("took", r.Ended.Sub(r.Started)),
	)
}
