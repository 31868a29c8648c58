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

var _ source.Shard = (*Table)(nil)

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
	r := row{id: id, values: make([][]byte, len(t.columns.List))}
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
	if n := len(t.rows); n > 0 {
		p.MaxID = t.rows[n-1].id
	}
	for _, r := range t.rows {
		if r.id <= q.After {
			continue
		}
		if q.Through > 0 && r.id > q.Through {
			break
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

// NextID implements source.Shard.
func (t *Table) NextID(context.Context) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next, nil
}
