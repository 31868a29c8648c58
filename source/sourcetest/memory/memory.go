package memory

import (
	"slices"
	"sync"
	"time"

	"example.org/bridge/source"
)

var _ source.Shard = (*Table)(nil)

// Table is one shard in memory. Its methods are safe for concurrent use.
type Table struct {
	// Clock is the database's clock. Defaults to time.Now. Set this field and those below before
	// the first use.
	Clock func() time.Time
	// Loose has Query.Keys ignore case, as many servers do.
	Loose bool
	// Repeated says that no unique index proves that a key is a single row's, unless the id is the
	// key.
	Repeated bool
	// Unindexed says that MODIFIED has no index; DropIndex has it so later on.
	Unindexed bool

	// view is the table as its own spec shows it.
	view

	mu   sync.Mutex
	list []source.Column
	// version counts the changes of list.
	version int
	rows    []row
	next    uint64
	fails   int
	failErr error
	reads   int
	server  string
	replica bool
	// readOnly says that the server takes no writes for a while.
	readOnly bool
}

type row struct {
	id uint64
	// values are in the order of the table's list.
	values [][]byte
	// pending are the values that an open transaction has given it, nil for none.
	pending [][]byte
	// open says that its transaction has not ended.
	open bool
}

// NewTable returns an empty table. columns[0] must be the id; the other roles are filled from spec
// by name.
func NewTable(spec source.Spec, columns ...source.Column) *Table {
	t := &Table{Clock: time.Now, next: 1, server: "memory", list: slices.Clone(columns)}
	t.view = view{table: t, spec: spec}
	return t
}

// locked locks the table and returns what unlocks it.
func (t *Table) locked() (unlock func()) {
	t.mu.Lock()
	return t.mu.Unlock
}

// As returns another reader of the table, with a spec of its own.
func (t *Table) As(spec source.Spec) source.Shard { return &view{table: t, spec: spec} }

// Fail makes the next n reads fail with err; a negative n all of them.
func (t *Table) Fail(n int, err error) {
	defer t.locked()()
	t.fails, t.failErr = n, err
}

// Move has another server answer from now on, one that takes the writes or a replica of it.
func (t *Table) Move(server string, replica bool) {
	defer t.locked()()
	t.server, t.replica = server, replica
}

// ReadOnly has the server take no writes from now on, or take them again. It counts as another
// server while it takes none, and shows its open rows all the same.
func (t *Table) ReadOnly(on bool) {
	defer t.locked()()
	t.readOnly = on
}

// identity tells the server that answers from others. The caller holds the mutex.
func (t *Table) identity() string {
	if t.readOnly {
		return t.server + " read-only"
	}
	return t.server
}

// DropIndex drops the index of MODIFIED.
func (t *Table) DropIndex() {
	defer t.locked()()
	t.Unindexed = true
}

// Reads returns how often Read was called.
func (t *Table) Reads() int {
	defer t.locked()()
	return t.reads
}
