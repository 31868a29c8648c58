package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"bridge/source"
)

var (
	_ source.Shard    = (*Table)(nil)
	_ source.IDReader = (*Table)(nil)
)

// Table is one shard in memory. Its methods are safe for concurrent use.
type Table struct {
	// Clock is the database's clock. Defaults to time.Now; set it before the first use.
	Clock func() time.Time

	mu      sync.Mutex
	columns *source.Columns
	rows    []row
	next    uint64
	fails   int
	failErr error
	reads   int
}

type row struct {
	id     uint64
	values [][]byte
	// open says that its transaction has not ended.
	open bool
}

// NewTable returns an empty table. columns[0] must be the id; the other roles are filled from spec by name.
func NewTable(spec source.Spec, columns ...source.Column) *Table {
	t := &Table{Clock: time.Now, next: 1}
	t.columns = shape(spec, columns)
	return t
}

func shape(spec source.Spec, columns []source.Column) *source.Columns {
	index := func(name string) int {
		if name == "" {
			return -1
		}
		return slices.IndexFunc(columns, func(c source.Column) bool { return c.Name == name })
	}
	c := &source.Columns{
		List: columns, ID: index(spec.ID),
		Created: index(spec.Created), Modified: index(spec.Modified), Deleted: index(spec.Deleted),
	}
	for _, name := range spec.Key {
		c.Key = append(c.Key, index(name))
	}
	if len(c.Key) == 0 {
		c.Key = []int{c.ID}
	}
	return c
}

// Insert commits a row under the next id and returns that. values are those of the columns after the id, in their normal
// form.
func (t *Table) Insert(values ...string) uint64 {
	t.mu.Lock()
	id := t.next
	t.mu.Unlock()
	t.InsertAt(id, values...)
	return id
}

// InsertAt commits a row under the given id. Fewer values than columns leave the others NULL.
func (t *Table) InsertAt(id uint64, values ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.insert(id, false, values)
}

func (t *Table) insert(id uint64, open bool, values []string) {
	r := row{id: id, values: make([][]byte, len(t.columns.List)), open: open}
	r.values[0] = strconv.AppendUint(nil, id, 10)
	for i, v := range values {
		r.values[i+1] = []byte(v)
	}
	at, found := slices.BinarySearchFunc(t.rows, id, func(r row, id uint64) int {
		switch {
		case r.id < id:
			return -1
		case r.id > id:
			return 1
		}
		return 0
	})
	if found {
		panic(fmt.Sprintf("memory: duplicate id %d", id))
	}
	t.rows = slices.Insert(t.rows, at, r)
	t.next = max(t.next, id+1)
}

// Delete removes a row; the next id stays.
func (t *Table) Delete(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return r.id == id })
}

// Truncate removes all rows and hands out ids from 1 again.
func (t *Table) Truncate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows, t.next = nil, 1
}

// Fail makes the next n reads fail with err; a negative n all of them.
func (t *Table) Fail(n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fails, t.failErr = n, err
}

// Reads returns how often the table was read.
func (t *Table) Reads() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reads
}

// Read implements source.Shard.
func (t *Table) Read(ctx context.Context, q source.Query, p *source.Page) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	t.reads++
	if t.fails != 0 {
		t.fails--
		return t.failErr
	}
	p.Reset()
	p.Columns, p.Now, p.Server = t.columns, t.Clock().UTC(), "memory"
	for _, r := range t.rows {
		if !r.open {
			p.MaxID = r.id
		}
	}
	for _, r := range t.rows {
		if r.open || !wanted(q, r.id) {
			continue
		}
		if len(p.Records) == q.Limit || q.MaxBytes > 0 && p.Bytes >= q.MaxBytes {
			p.More = true
			break
		}
		p.Append(r.id, len(r.values))
		for i, v := range r.values {
			p.Set(i, v)
		}
	}
	return nil
}

func wanted(q source.Query, id uint64) bool {
	if q.Ranges == nil {
		return id > q.After && (q.Through == 0 || id <= q.Through)
	}
	return slices.ContainsFunc(q.Ranges, func(r source.Range) bool { return r.First <= id && id <= r.Last })
}

// Open inserts a row under the next id in a transaction that Commit or Rollback ends, and returns the id.
func (t *Table) Open(values ...string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.next
	t.insert(id, true, values)
	return id
}

// Commit ends the transaction of an open row, Rollback removes the row.
func (t *Table) Commit(id uint64) { t.end(id, true) }

// Rollback removes an open row; its id stays used.
func (t *Table) Rollback(id uint64) { t.end(id, false) }

func (t *Table) end(id uint64, commit bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.rows, func(r row) bool { return r.id == id && r.open })
	if commit {
		t.rows[i].open = false
	} else {
		t.rows = slices.Delete(t.rows, i, i+1)
	}
}

// Skip takes the next n ids without inserting anything, as a rollback does.
func (t *Table) Skip(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next += n
}

// ReadIDs implements source.IDReader.
func (t *Table) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	*ids = source.IDs{List: ids.List[:0], Now: t.Clock().UTC(), Server: "memory"}
	for _, r := range t.rows {
		if wanted(source.Query{Ranges: ranges}, r.id) && (uncommitted || !r.open) && len(ids.List) < limit {
			ids.List = append(ids.List, r.id)
		}
	}
	ids.Cut = len(ids.List) == limit
	return nil
}

// Traits implements source.IDReader: a table in memory shows its open rows.
func (t *Table) Traits(context.Context) (source.Traits, error) {
	return source.Traits{Order: source.OrderStrict, OrderWhy: "one counter", Evidence: true, EvidenceWhy: "open rows are shown"}, nil
}

// NextID implements source.Shard.
func (t *Table) NextID(context.Context) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next, nil
}
