package memory

import (
	"cmp"
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
	// Clock is the database's clock. Defaults to time.Now. Set this field and those below before the first use.
	Clock func() time.Time
	// Loose has Query.Keys compare without regard to letter case, as many servers do.
	Loose bool
	// Unindexed says that MODIFIED has no index.
	Unindexed bool

	mu      sync.Mutex
	columns *source.Columns
	rows    []row
	next    uint64
	fails   int
	failErr error
	reads   int
	server  string
	replica bool
}

type row struct {
	id     uint64
	values [][]byte
	// open says that its transaction has not ended.
	open bool
}

// NewTable returns an empty table. columns[0] must be the id; the other roles are filled from spec by name.
func NewTable(spec source.Spec, columns ...source.Column) *Table {
	return &Table{Clock: time.Now, next: 1, server: "memory", columns: shape(spec, columns)}
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

// Fail makes the next n reads fail with err; a negative n all of them.
func (t *Table) Fail(n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fails, t.failErr = n, err
}

// Move has another server answer from now on, one that takes the writes or a replica of it.
func (t *Table) Move(server string, replica bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.server, t.replica = server, replica
}

// Reads returns how often Read was called.
func (t *Table) Reads() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reads
}

// begin counts a read and returns the error that it shall have. The caller holds mu.
func (t *Table) begin(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.reads++
	if t.fails != 0 {
		t.fails--
		return t.failErr
	}
	return nil
}

// Read implements source.Shard.
func (t *Table) Read(ctx context.Context, q source.Query, p *source.Page) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.begin(ctx); err != nil {
		return err
	}
	p.Reset()
	p.Columns, p.Now, p.Server = t.columns, t.Clock().UTC(), t.server
	for _, r := range t.rows {
		if !r.open {
			p.MaxID = r.id
		}
	}
	for _, r := range t.rows {
		if r.open || !t.wanted(q, r) {
			continue
		}
		if len(p.Records) == q.Limit || q.MaxBytes > 0 && p.Bytes >= q.MaxBytes {
			p.More = true
			break
		}
		p.Append(r.id, len(r.values))
		for i, v := range r.values {
			if v != nil {
				p.Set(i, v)
			}
		}
	}
	p.More = p.More || len(p.Records) == q.Limit
	return nil
}

func (t *Table) wanted(q source.Query, r row) bool {
	switch {
	case q.Keys != nil:
		return slices.ContainsFunc(q.Keys, func(tuple [][]byte) bool { return t.hasKey(r, tuple) })
	case q.Ranges != nil:
		return in(q.Ranges, r.id)
	}
	return r.id > q.After && (q.Through == 0 || r.id <= q.Through)
}

func in(ranges []source.Range, id uint64) bool {
	return slices.ContainsFunc(ranges, func(r source.Range) bool { return r.First <= id && id <= r.Last })
}

// ReadIDs implements source.IDReader.
func (t *Table) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	*ids = source.IDs{List: ids.List[:0], Now: t.Clock().UTC(), Server: t.server}
	for _, r := range t.rows {
		if in(ranges, r.id) && (uncommitted || !r.open) && len(ids.List) < limit {
			ids.List = append(ids.List, r.id)
		}
	}
	ids.Cut = len(ids.List) == limit
	return nil
}

// ReadChanges implements source.ChangeReader.
func (t *Table) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	*c = source.Changes{List: c.List[:0]}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !t.indexed() {
		return fmt.Errorf("%w: no index begins with MODIFIED", source.ErrUnfit)
	}
	c.Now, c.Server = t.Clock().UTC(), t.server
	for _, r := range t.rows {
		v := r.values[t.columns.Modified]
		at := source.Cursor{Modified: string(v), ID: r.id}
		if v != nil && !r.open && compare(at, q.After) > 0 && (q.Through == "" || at.Modified <= q.Through) {
			c.List = append(c.List, at)
		}
	}
	slices.SortFunc(c.List, compare)
	c.More = len(c.List) >= q.Limit
	c.List = c.List[:min(len(c.List), q.Limit)]
	return nil
}

func compare(a, b source.Cursor) int {
	return cmp.Or(cmp.Compare(a.Modified, b.Modified), cmp.Compare(a.ID, b.ID))
}

func (t *Table) indexed() bool { return t.columns.Modified >= 0 && !t.Unindexed }

// Traits implements source.IDReader: a table in memory shows its open rows.
func (t *Table) Traits(context.Context) (source.Traits, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	traits := source.Traits{
		Order: source.OrderStrict, OrderWhy: "one counter", Evidence: true, EvidenceWhy: "open rows are shown",
		Writer: true, WriterWhy: "there is one server", ModifiedIndexed: t.indexed(),
	}
	if t.replica {
		traits.Evidence, traits.EvidenceWhy = false, "a replica shows no open rows"
		traits.Writer, traits.WriterWhy = false, "a replica may lag"
	}
	return traits, nil
}

// NextID implements source.Shard.
func (t *Table) NextID(context.Context) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next, nil
}

func number(id uint64) []byte { return strconv.AppendUint(nil, id, 10) }
