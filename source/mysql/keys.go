package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

// lookup finds rows by a unique index whose columns are NOT NULL and key columns: a tuple finds one
// row at most. The other key columns are for the caller to compare.
type lookup struct {
	// parts are the columns of the index; none when no index proves the key.
	parts []keyPart
	// index is its name, "" when the server cannot read by it.
	index string
}

type keyPart struct {
	at int
	// name is the column as SQL.
	name string
	kind source.Kind
	// collation is "" for a column without a character set.
	collation string
}

func findByKey(sh *shape, table *sqltable.Table) (l lookup) {
	key := make([]string, len(sh.columns.Key))
	for i, at := range sh.columns.Key {
		key[i] = sh.columns.List[at].Name
	}
	proof, _ := table.Proof(key)
	if proof == nil {
		return l
	}
	l.index = proof.Usable()
	for _, part := range proof.Columns {
		column, _ := table.Column(part.Name)
		l.parts = append(l.parts, keyPart{at: slices.Index(key, column.Name), name: quoteName(column.Name), kind: column.Kind, collation: column.Collation})
	}
	return l
}

// split leaves out tuples that no row can have; strange ones take a look at every row.
func (l lookup) split(keys [][][]byte) (sure, strange [][][]byte) {
	for _, tuple := range keys {
		worst := sound
		for _, part := range l.parts {
			if part.at >= len(tuple) {
				worst = never
				break
			}
			worst = min(worst, part.fit(tuple[part.at]))
		}
		switch worst {
		case sound:
			sure = append(sure, tuple)
		case odd:
			strange = append(strange, tuple)
		}
	}
	return sure, strange
}

const (
	maxCondition = 512 << 10
	// atOnce bounds the keys in one condition: the server finds a row by its index, but then goes
	// through the condition until it meets the key of that row.
	atOnce = 100
)

// condition takes as many of keys as fit into room bytes: none where the first one does not.
func (l lookup) condition(keys [][][]byte, written encodings, room int) (condition []byte, taken int) {
	if len(keys) == 0 {
		return []byte("FALSE"), 0
	}
	for taken < min(len(keys), atOnce) {
		before := len(condition)
		if taken > 0 {
			condition = append(condition, " OR "...)
		}
		for i, part := range l.parts {
			condition = append(condition, []string{"(", " AND "}[min(i, 1)]...)
			condition = part.appendCondition(condition, keys[taken][part.at], written)
		}
		if condition = append(condition, ')'); len(condition) > room {
			return condition[:before], taken
		}
		taken++
	}
	return condition, taken
}

// readKeys reads the rows that the index finds in as few statements as their length allows, then
// the strange ones. fresh says that the columns were read just now.
func (s *shard) readKeys(ctx context.Context, c conn, q source.Query, p *source.Page, fresh bool) error {
	if len(s.shape.key.parts) == 0 {
		return fmt.Errorf("%w: no unique index over NOT NULL columns of the KEY: let an administrator run: %s",
			source.ErrUnfit, s.addUnique(s.spec.Key...))
	}
	sure, strange := s.shape.key.split(q.Keys)
	found, server := slices.Concat(sure, strange), s.source.connector.server.Load()
	written, err := s.shape.key.encode(ctx, c, found, server)
	if err != nil {
		return err
	}
	if !fresh && (len(found) < len(q.Keys) || written.lossy()) {
		// What no row could hold when the columns were read may be there by now: an emoji.
		if err := s.refresh(ctx, c); err != nil {
			return err
		}
		return s.readKeys(ctx, c, q, p, true)
	}
	// Invariant 5: a key that is not found here is absent, if Traits says so.
	return server.waiting.around(ctx, c, func(bool) error { return s.readAllKeys(ctx, c, q, p, written, sure, strange) })
}

func (s *shard) readAllKeys(ctx context.Context, c conn, q source.Query, p *source.Page, written encodings, groups ...[][][]byte) (err error) {
	query, server := s.pageQuery(), s.source.connector.server.Load()
	room := min(server.room(len(query.keysText(nil, q.Limit))), maxCondition)
	for i, keys := range groups {
		// Without keys the first one reads the head.
		if i > 0 && (err != nil || p.More || len(keys) == 0) {
			break
		}
		err = s.readStatements(ctx, c, q.Limit, q.MaxBytes, p, func(asked int) (string, bool, error) {
			condition, taken := s.shape.key.condition(keys, written, room)
			if taken == 0 && len(keys) > 0 {
				return "", false, s.shape.key.errLong(keys[0], written, server.packet, server.packet-room)
			}
			keys = keys[taken:]
			return query.keysText(condition, asked), len(keys) > 0, nil
		})
	}
	if err == nil || errors.Is(err, errCut) {
		if changed := unite(p); changed != nil {
			if s.shape.unproved {
				return fmt.Errorf("%w: %w, or two rows have this id", source.ErrUnfit, changed)
			}
			return changed
		}
	}
	return err
}

// packet is what the server takes, base what the statement has besides the key.
func (l lookup) errLong(key [][]byte, written encodings, packet, base int) error {
	condition, _ := l.condition([][][]byte{key}, written, math.MaxInt)
	return fmt.Errorf("%w: the KEY of the row with %s = %.40q takes %d bytes in a statement, and max_allowed_packet of the server is %d: let an administrator run: "+
		"SET GLOBAL max_allowed_packet = %d", source.ErrUnfit, l.parts[0].name, key[l.parts[0].at], len(condition), packet,
		(base+len(condition))/1024*1024+2048)
}

// unite puts the rows of several statements in order. A row that two of them found comes once. One
// that was changed between them is an error, for the caller to read again: its key may be another
// by now, and neither of the two may count as absent.
func unite(p *source.Page) error {
	p.Sort()
	p.Bytes = 0
	kept := p.Rows[:0]
	for _, r := range p.Rows {
		if n := len(kept); n > 0 && kept[n-1].ID == r.ID && (p.Columns == nil || p.Columns.IDFormat == "" || bytes.Equal(kept[n-1].Values[p.Columns.ID], r.Values[p.Columns.ID])) {
			if kept[n-1].Filtered != r.Filtered || !slices.EqualFunc(kept[n-1].Values, r.Values, func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }) {
				return fmt.Errorf("row %d was changed between two statements of one read", r.ID)
			}
			continue
		}
		for _, v := range r.Values {
			p.Bytes += len(v)
		}
		kept = append(kept, r)
	}
	p.Rows = kept
	return nil
}

// readIndexes reads the primary key first, and cuts it to the id where the id begins it.
func (t *inspection) readIndexes(ctx context.Context, c conn) error {
	end := ""
	if t.generated {
		// Current rows have the same end in a table that keeps its history: it makes none unique.
		err := c.query(ctx, "SELECT COLUMN_NAME AS c FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND GENERATION_EXPRESSION = 'ROW END'",
			func(get func(string) string) { end = get("c") }, t.table.Database, t.table.Table)
		if err != nil {
			return err
		}
	}
	var indexes []sqltable.Index
	err := c.query(ctx, "SHOW INDEX FROM "+t.quoted(), func(get func(string) string) {
		name := get("Key_name")
		if end != "" && get("Column_name") == end {
			return
		}
		if n := len(indexes); n == 0 || indexes[n-1].Name != name {
			indexes = append(indexes, sqltable.Index{
				Name: name, Unique: get("Non_unique") == "0",
				Ignored:   get("Ignored") == "YES" || get("Visible") == "NO",
				Unordered: get("Index_type") == "HASH",
			})
		}
		last := &indexes[len(indexes)-1]
		last.Columns = append(last.Columns, sqltable.IndexColumn{Name: get("Column_name"), Prefix: get("Sub_part") != ""})
	})
	t.Table.Indexes = indexes
	t.cutPrimary()
	return err
}

// No index proves that an id comes once where the primary key has another column besides: PRIMARY
// KEY (id, day) takes (7, Monday) and (7, Tuesday), and a partitioned table cannot have a better
// one. Such a table is read on the word of AUTO_INCREMENT, and whatever reads it looks whether an
// id comes twice: within a page, across the end of a page, and by key. That stops the reader. An id
// that is written again below the position is found by the next reconcile, which reads all pages.

// cutPrimary cuts the primary key to the id where that is the first of its columns, and the id is
// unique by another index or counted. unproved says that nothing but the counter keeps it unique.
func (t *inspection) cutPrimary() {
	at := slices.IndexFunc(t.Table.Indexes, func(i sqltable.Index) bool { return i.Name == "PRIMARY" })
	unique := t.Table.Unique(t.Spec.ID) != nil
	t.unproved = false
	if at < 0 || !unique && !t.counted {
		return
	}
	primary := &t.Table.Indexes[at]
	if first := primary.Columns[0]; !first.Prefix && strings.EqualFold(first.Name, t.Spec.ID) {
		primary.Columns, t.unproved = primary.Columns[:1], !unique
	}
}
