package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/internal/option"
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
	// Unindexed says that MODIFIED has no index; Index changes that later on.
	Unindexed bool

	// view is the table as its own spec shows it.
	view

	mu   sync.Mutex
	list []source.Column
	// version counts the changes of list and index.
	version  int
	rows     []row
	next     uint64
	fails    int
	failErr  error
	reads    int
	server   string
	replica  bool
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

// Index makes or drops the index of MODIFIED.
func (t *Table) Index(on bool) {
	defer t.locked()()
	t.Unindexed = !on
	t.version++
}

// Reads returns how often Read was called.
func (t *Table) Reads() int {
	defer t.locked()()
	return t.reads
}

// compileFilter makes a function of the spec's condition. It knows conditions of one form:
// column = 'text', or <> in place of =.
func (v *view) compileFilter() error {
	v.filter = nil
	if v.spec.Filter == "" {
		return nil
	}
	refuse := func(why any) error {
		return option.Errorf("%w: the condition %s does not fit the table: %v", source.ErrUnfit, option.Filter, why)
	}
	if err := source.CheckFilter(v.spec.Filter); err != nil {
		return refuse("it " + err.Error())
	}
	words := strings.Fields(v.spec.Filter)
	if len(words) != 3 || words[1] != "=" && words[1] != "<>" {
		return refuse("a table in memory reads column = 'text' and column <> 'text' alone")
	}
	at := v.table.column(words[0])
	if at < 0 {
		return refuse(fmt.Sprintf("unknown column %q", words[0]))
	}
	text, equal := strings.Trim(words[2], "'"), words[1] == "="
	v.filter = func(values [][]byte) bool { return values[at] != nil && (string(values[at]) == text) == equal }
	return nil
}

// sharing reads a table as one whose ids are ULIDs, of which each three have one number.
type sharing struct {
	source.Shard
	mu      sync.Mutex
	columns map[*source.Columns]*source.Columns
}

const together = 3

// Sharing returns what reads rows of the table by ULIDs, of which several have one number.
func Sharing(t source.Shard) source.Shard {
	return &sharing{Shard: t, columns: make(map[*source.Columns]*source.Columns)}
}

// Shared returns the number that the ULID of a row has.
func Shared(id uint64) uint64 { return (id + together - 1) / together }

func (s *sharing) Read(ctx context.Context, q source.Query, p *source.Page) error {
	const highest = 1 << 60
	limit := q.Limit
	if q.Keys == nil {
		q.Limit, q.MaxBytes = 1<<30, 0
	}
	q.After, q.Through = min(q.After, highest)*together, min(q.Through, highest)*together
	if q.Ranges != nil {
		of := q.Ranges
		q.Ranges = make([]source.Range, len(of))
		for i, r := range of {
			q.Ranges[i] = source.Range{First: max(r.First, 1)*together - together + 1, Last: min(r.Last, highest) * together}
		}
	}
	if err := s.Shard.Read(ctx, q, p); err != nil {
		return err
	}
	p.Columns, p.MaxID = s.of(p.Columns), Shared(p.MaxID)
	for i := range p.Rows {
		row := &p.Rows[i]
		ulid := source.IDColumn{Format: source.ULID}.Lowest(Shared(row.ID))
		ulid[len(ulid)-1] = '0' + byte(row.ID%together)
		row.ID, row.Values[p.Columns.ID] = Shared(row.ID), ulid
	}
	for i := limit; q.Keys == nil && i < len(p.Rows); i++ {
		if p.Rows[i].ID != p.Rows[i-1].ID {
			p.Rows, p.More = p.Rows[:i], true
		}
	}
	return nil
}

func (s *sharing) of(columns *source.Columns) *source.Columns {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.columns[columns] == nil {
		own := *columns
		own.List = append([]source.Column(nil), columns.List...)
		own.List[own.ID].Kind, own.IDFormat = source.Text, source.ULID
		s.columns[columns] = &own
	}
	return s.columns[columns]
}
