package checkpoint

import (
	"context"
	"time"
)

// Run is the progress of a reconcile of a shard, or how the last one ended.
type Run struct {
	// Started is when the run began, Ended when it ended (zero while it is under way), by the
	// host's clock.
	Started, Ended time.Time
	// Clock is the database's clock when the run began: what was committed before is judged by it.
	Clock time.Time
	// Bound is the highest id that is judged, After the id up to which the table and the view have
	// been compared.
	Bound, After uint64
	// Server is the server that the run reads.
	Server string
	// Scanned counts the rows read, Entities the live entities of the view compared.
	Scanned, Entities uint64
	// Added, Modified, Deleted and Missed count what was published, by kind: Missed are rows of a
	// release stream.
	Added, Modified, Deleted, Missed uint64
	// Absent counts the live entities without a row that wait for the end of the scan; they are
	// saved beside the run.
	Absent uint64
	// Judged counts those of them that the owner has judged already.
	Judged uint64
	// Guard says why no delete is published until a person agrees; empty while the guard has not
	// tripped.
	Guard string
	// Allowed says that a person has agreed to the deletes of this run.
	Allowed bool
	// Verified is the database's clock up to which all commits are known to be published, from the
	// last run that ended well.
	Verified time.Time
}

// Runs keeps the reconcile runs of shards, so that one that is cut short goes on where it stopped.
// It is safe for concurrent use.
type Runs interface {
	// LoadRun returns the run of a shard, or ErrNotFound.
	LoadRun(ctx context.Context, key Key) (Run, error)
	// SaveRun saves the run and, in the same transaction, adds absent to the entities that wait for
	// its end; a run with Absent 0 and no absent drops all that wait. The shard may be without a
	// state.
	SaveRun(ctx context.Context, key Key, run Run, absent [][]byte) error
	// Absent appends to dst up to limit of the entities that wait, in the order in which they were
	// added, beginning with the one numbered from (the first is 0). The entities are copies.
	Absent(ctx context.Context, key Key, from uint64, limit int, dst [][]byte) ([][]byte, error)
}
