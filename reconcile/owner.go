package reconcile

import (
	"context"

	"bridge/source"
)

// Nomination names what may differ from what was published. It proves nothing: the owner reads it
// again.
type Nomination struct {
	// Rows are ids of rows that are new to the view, or whose state differs from it: ascending and
	// disjoint, at most MaxNominated ids in all.
	Rows []source.Range
	// Entities are entities that the view knows and the scan did not find, in the encoding of
	// event.Event.Entity: at most MaxNominated.
	Entities [][]byte
	// Published has the rows that were published last be compared with the table: where their ids
	// are used again, the shard stops.
	Published bool
}

// MaxNominated bounds one nomination.
const MaxNominated = 1000

// Verdict counts what the owner published of a nomination; what it found in order is left out.
type Verdict struct {
	Added, Modified, Deleted uint64
	// Missed counts the rows of a release stream.
	Missed uint64
}

// Add adds v to the counts.
func (c *Verdict) Add(v Verdict) {
	c.Added += v.Added
	c.Modified += v.Modified
	c.Deleted += v.Deleted
	c.Missed += v.Missed
}

// Owner is the one that publishes a shard.
type Owner interface {
	// Nominate blocks until the owner has read what n names, published what differs and saved that.
	// An error says that the shard stopped or ctx ended: any part of n may have been published.
	Nominate(ctx context.Context, n Nomination) (Verdict, error)
	// Reach returns the saved position of the shard, up to which a scan may judge; false while the
	// shard does not run.
	Reach() (position uint64, ok bool)
}
