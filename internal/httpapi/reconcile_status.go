package httpapi

import (
	"time"
)

// ReconcileStatus is the state of the reconcile of one shard. Times are by the host's clock, except
// VerifiedThrough.
type ReconcileStatus struct {
	// Running says that a run is under way. Waiting counts the unanswered requests, including that
	// of the run under way.
	Running bool `json:"running"`
	Waiting int  `json:"waiting"`
	// DryRun and the fields after it, up to Absent, are about the run under way, or the last one
	// that was not a dry run.
	DryRun    bool       `json:"dryRun"`
	StartedAt *time.Time `json:"startedAt"`
	// EndedAt is null while a run is under way, and if it was cut short.
	EndedAt *time.Time `json:"endedAt"`
	// Rows counts the rows read. RowsOf estimates their number at the end, 0 while unknown; after a
	// run it is Rows.
	Rows          uint64  `json:"rows"`
	RowsOf        uint64  `json:"rowsOf"`
	Percent       float64 `json:"percent"`
	RowsPerSecond float64 `json:"rowsPerSecond"`
	SecondsLeft   float64 `json:"secondsLeft"`
	// DifferenceCounts count the events that were published, or would be.
	DifferenceCounts
	// Absent counts the live entities that have no row.
	Absent uint64 `json:"absent"`
	// Resumed says that the run continued one that was cut short. Unjudged says why absence was not
	// judged.
	Resumed  bool    `json:"resumed"`
	Unjudged *string `json:"unjudged"`
	// VerifiedThrough is the database's clock up to which all commits are known to be published.
	VerifiedThrough *time.Time `json:"verifiedThrough"`
	// Guard says why no delete is published until a person agrees.
	Guard *string `json:"guard"`
	// LastError says why the last run was cut short.
	LastError *string    `json:"lastError"`
	NextAt    *time.Time `json:"nextAt"`
	// LastRun and LastDryRun are null before the first one since the start.
	LastRun    *ReconcileReport `json:"lastRun"`
	LastDryRun *ReconcileReport `json:"lastDryRun"`
}

// DifferenceCounts counts differences by kind. Missed are rows of a release stream.
type DifferenceCounts struct {
	Added    uint64 `json:"added"`
	Modified uint64 `json:"modified"`
	Deleted  uint64 `json:"deleted"`
	Missed   uint64 `json:"missed"`
}

// ReconcileReport is the result of a run.
type ReconcileReport struct {
	StartedAt *time.Time `json:"startedAt"`
	// EndedAt is null if the run was cut short; Error says why.
	EndedAt *time.Time `json:"endedAt"`
	Error   *string    `json:"error"`
	DryRun  bool       `json:"dryRun"`
	Resumed bool       `json:"resumed"`
	Rows    uint64     `json:"rows"`
	DifferenceCounts
	Absent          uint64     `json:"absent"`
	Guard           *string    `json:"guard"`
	Unjudged        *string    `json:"unjudged"`
	VerifiedThrough *time.Time `json:"verifiedThrough"`
	// Differences are examples, of dry runs only.
	Differences []DifferenceStatus `json:"differences"`
}

// DifferenceStatus is one difference.
type DifferenceStatus struct {
	What   string `json:"what"`
	Row    uint64 `json:"row"`
	Entity string `json:"entity,omitempty"`
}

// Moment is null for the zero time.
func Moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Given is null for an empty text.
func Given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
