package reconcile

import (
	"log/slog"
	"time"
)

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
	What string
	// Row is the id of the row; of an entity that is gone, its last one.
	Row uint64
	// Entity is the entity key for people, its values joined by '+'; empty for a row of a release
	// stream.
	Entity string
}

// LogValue implements slog.LogValuer.
func (r Report) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Uint64("scanned", r.Scanned), slog.Uint64("entities", r.Entities),
		slog.Uint64("added", r.Added), slog.Uint64("modified", r.Modified), slog.Uint64("deleted", r.Deleted), slog.Uint64("missed", r.Missed),
		slog.Uint64("gone", r.Gone), slog.Bool("resumed", r.Resumed), slog.Duration("took", r.Ended.Sub(r.Started)),
	)
}
