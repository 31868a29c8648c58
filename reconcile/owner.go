package reconcile

import (
	"context"

	"bridge/source"
)

// Nomination names rows and entities that may differ from what was published. It proves nothing:
// the owner reads them again.
type Nomination struct {
	// Rows are ids of rows that the view does not know or knows with another digest: ascending and
	// disjoint, at most MaxNominated ids in all.
	Rows []source.Range
	// Entities are the keys of entities of the view without a row: at most MaxNominated.
	Entities [][]byte
	// Published asks for a comparison of the rows published last with the table. If their ids are
	// used again, the shard stops.
	Published bool
}

// MaxNominated bounds one nomination.
const MaxNominated = 1000

// Verdict counts the events that the owner published for a nomination.
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

// Owner publishes a shard.
type Owner interface {
	// Nominate blocks until the rows and entities of n have been read and the differences were
	// published, by the owner or, where an entity moves, by another, and applied. An error says
	// that the shard stopped or ctx ended; any part of n may have been published.
	Nominate(ctx context.Context, n Nomination) (Verdict, error)
	// Reach returns the saved position of the shard, up to which a scan may judge; false while the
	// shard does not run.
	Reach() (position uint64, ok bool)
	// ReconcileDue reports whether a run has to follow at once; wish is the number of that wish.
	ReconcileDue() (wish uint64, due bool)
	// Reconciled says that a run which began after wish was returned has compared the whole table,
	// and returns once that is applied.
	Reconciled(ctx context.Context, wish uint64) error
}

// wish is an owner's wish that a run follows at once, if it is due.
type wish struct {
	number uint64
	due    bool
}

func wishOf(o Owner) (w wish) {
	w.number, w.due = o.ReconcileDue()
	return w
}
