package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

var _ source.Shard = (*view)(nil)

type view struct {
	table *Table
	spec  source.Spec
	// columns is the shape at version; pick has the index of each of its columns in the table's
	// list.
	columns *source.Columns
	pick    []int
	masks   source.Masks
	// filter reports whether the values of a row match; nil where all do.
	filter  func([][]byte) bool
	version int
}

// The caller holds the table's mutex.
func (v *view) refresh() error {
	t := v.table
	if v.columns != nil && v.version == t.version {
		return nil
	}
	for _, role := range v.spec.Named() {
		if t.column(role.Column) < 0 {
			return fmt.Errorf("%w: no column %q, which %s names", source.ErrMissing, role.Column, role.Setting)
		}
	}
	var own sqltable.Table
	for _, column := range t.list {
		own.Columns = append(own.Columns, sqltable.Column{Column: column})
	}
	c, pick := own.Pick(v.spec)
	c.Indexed = v.spec.Modified != "" && !t.Unindexed
	v.columns, v.pick, v.masks, v.version = c, pick, v.spec.Mask(c), t.version
	for i, name := range v.spec.Key {
		if v.spec.UniqueKey && c.List[c.Key[i]].Kind == source.Float {
			return fmt.Errorf("%w: the KEY column %q is an approximate number, which identifies nothing", source.ErrUnfit, name)
		}
	}
	return v.compileFilter()
}

// Read implements source.Shard.
func (v *view) Read(ctx context.Context, q source.Query, p *source.Page) error {
	t := v.table
	defer t.locked()()
	p.Reset()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.reads++
	if t.fails != 0 {
		t.fails--
		return t.failErr
	}
	switch err := v.refresh(); {
	case err != nil:
		return err
	case q.Keys != nil && len(v.spec.Key) > 0 && t.Repeated:
		return fmt.Errorf("%w: nothing proves that the KEY is unique", source.ErrUnfit)
	}
	p.Columns, p.Now, p.Server = v.columns, t.Clock().UTC(), t.identity()
	for i := len(t.rows); i > 0 && p.MaxID == 0; i-- {
		if r := &t.rows[i-1]; !r.open {
			p.MaxID = r.id
		}
	}
	wanted := v.wanted(q)
	for r := range t.among(ranges(q)) {
		if r.open || !wanted(r) {
			continue
		}
		if p.More = q.MaxBytes > 0 && p.Bytes >= q.MaxBytes; p.More {
			break
		}
		p.Append(r.id, len(v.pick))
		for i, from := range v.pick {
			if r.values[from] != nil {
				p.Set(i, v.masks.Hide(i, r.values[from]))
			}
		}
		if v.filter != nil && !v.filter(r.values) {
			p.Filter()
		}
		if p.More = len(p.Rows) == q.Limit; p.More {
			break
		}
	}
	v.spec.Expire(&q, p)
	return nil
}

func ranges(q source.Query) []source.Range {
	switch {
	case q.Ranges != nil && q.Keys == nil:
		return q.Ranges
	case q.Keys != nil:
		return everything
	case q.After == math.MaxUint64:
		return nil
	}
	return []source.Range{{First: q.After + 1, Last: cmp.Or(q.Through, math.MaxUint64)}}
}

var everything = []source.Range{{Last: math.MaxUint64}}

func (v *view) wanted(q source.Query) func(r *row) bool {
	if q.Keys == nil {
		return func(*row) bool { return true }
	}
	keys := make(map[string]bool, len(q.Keys))
	for _, tuple := range q.Keys {
		keys[textOf(v.table.Loose, tuple)] = true
	}
	key := make([][]byte, len(v.columns.Key))
	return func(r *row) bool {
		for i, at := range v.columns.Key {
			key[i] = r.values[v.pick[at]]
		}
		return keys[textOf(v.table.Loose, key)]
	}
}

func (t *Table) among(ranges []source.Range) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		at := 0
		for _, one := range ranges {
			first, _ := t.find(one.First)
			for at = max(at, first); at < len(t.rows) && t.rows[at].id <= one.Last; at++ {
				if !yield(&t.rows[at]) {
					return
				}
			}
		}
	}
}

// ReadIDs implements source.IDReader.
func (v *view) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	t := v.table
	defer t.locked()()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	*ids = source.IDs{List: ids.List[:0], Now: t.Clock().UTC(), Server: t.identity()}
	for r := range t.among(ranges) {
		if len(ids.List) == limit {
			break
		}
		if uncommitted && !t.replica || !r.open {
			ids.List = append(ids.List, r.id)
		}
	}
	ids.Cut = len(ids.List) == limit
	return nil
}

// ReadChanges implements source.ChangeReader.
func (v *view) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	t := v.table
	defer t.locked()()
	*c = source.Changes{List: c.List[:0]}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := v.refresh(); err != nil {
		return err
	}
	if !v.columns.Indexed {
		return fmt.Errorf("%w: no index begins with MODIFIED", source.ErrUnfit)
	}
	c.Now, c.Server = t.Clock().UTC(), t.identity()
	chosen := q.Ranges
	if chosen == nil {
		chosen = everything
	}
	uncommitted := q.Uncommitted && !t.replica
	for r := range t.among(chosen) {
		values := r.values
		if uncommitted && r.pending != nil {
			values = r.pending
		}
		value := values[v.pick[v.columns.Modified]]
		if value == nil || r.open && !uncommitted {
			continue
		}
		if q.Ranges == nil && (string(value) < q.After.Modified || q.Through != "" && string(value) > q.Through) {
			continue
		}
		if at := (source.Cursor{Modified: string(value), ID: r.id}); q.Ranges != nil || at.Compare(q.After) > 0 {
			c.List = append(c.List, at)
		}
	}
	if q.Ranges == nil {
		slices.SortFunc(c.List, source.Cursor.Compare)
	}
	c.More = len(c.List) >= q.Limit
	c.List = c.List[:min(len(c.List), q.Limit)]
	return nil
}

// Traits implements source.IDReader: a table in memory shows its open rows.
func (v *view) Traits(context.Context) (source.Traits, error) {
	t := v.table
	defer t.locked()()
	traits := source.Traits{
		Server: t.identity(), Uncommitted: true,
		Order: source.OrderStrict, OrderWhy: "one counter", Evidence: true, EvidenceWhy: "open rows are shown",
		Writer: true, WriterWhy: "there is one server",
	}
	if t.replica {
		traits.Evidence, traits.EvidenceWhy = false, "a replica shows no open rows"
		traits.Writer, traits.WriterWhy = false, "a replica may lag"
	}
	if t.readOnly {
		traits.Evidence, traits.EvidenceWhy = false, "the server is read-only"
		traits.Writer, traits.WriterWhy = false, "the server is read-only"
	}
	return traits, nil
}

// NextID implements source.Shard.
func (v *view) NextID(context.Context) (uint64, error) {
	defer v.table.locked()()
	return v.table.next, nil
}
