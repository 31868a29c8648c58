package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/source"
)

// lookup finds rows along a unique index whose columns are NOT NULL and among the key columns.
type lookup struct {
	// by is the clause for the index, "" when no index proves the key.
	by string
	// parts are its first columns, as far as a value in normal form tells what is stored.
	parts []keyPart
}

type keyPart struct {
	at int
	// column is its name as SQL, with the collation of the index.
	column string
}

func (t *inspection) findByKey(sh *shape) (l lookup) {
	key := t.Spec.Key
	if len(key) == 0 {
		key = []string{t.Spec.ID}
	}
	proof, _ := t.Table.Proof(key)
	if proof == nil {
		return l
	}
	l.by = by(proof)
	for _, part := range proof.Columns {
		at := slices.IndexFunc(sh.columns.Key, func(column int) bool { return t.Table.Same(sh.columns.List[column].Name, part.Name) })
		// Times are stored in too many ways, booleans and documents too.
		if form := sh.values[sh.columns.Key[at]]; form.boolean || form.kind == source.Timestamp || form.kind == source.Date || form.kind == source.JSON {
			break
		}
		l.parts = append(l.parts, keyPart{at: at, column: quoteName(part.Name) + " COLLATE " + quoteName(part.Collation)})
	}
	return l
}

// maxParameters is below the number that SQLite allows in a statement, 32,766.
const maxParameters = 30_000

// readKeys reads the rows with the keys of q into p. Unlike other servers it compares byte for
// byte, because only so it can tell a row that is stored in another form of the same value.
func (s *shard) readKeys(ctx context.Context, c *session, q source.Query, p *source.Page) error {
	key := s.shape.key
	if key.by == "" {
		return fmt.Errorf("%w: no unique index over NOT NULL columns of the KEY: let the application run: %s", source.ErrUnfit, s.createUnique(s.spec.Key...))
	}
	p.Columns, p.Server = s.shape.columns, c.identity
	p.Now = time.Now().UTC().Round(0)
	wanted := make(map[string]bool, len(q.Keys))
	for _, tuple := range q.Keys {
		wanted[string(appendTuple(nil, tuple))] = true
	}
	take := func(row []driver.Value) (full bool, err error) {
		name, err := s.tupleOf(row)
		if err != nil || !wanted[string(name)] {
			return false, err
		}
		// Once, whatever other tuples find the row as well.
		delete(wanted, string(name))
		id, err := s.shape.ids.number(row[s.shape.columns.ID])
		if err == nil {
			err = s.appendRow(id, row, p)
		}
		if err != nil {
			return false, err
		}
		return len(p.Rows) == q.Limit || q.MaxBytes > 0 && p.Bytes >= q.MaxBytes, nil
	}
	searched := key.distinct(q.Keys)
	for {
		n := min(len(searched), maxParameters/(forms*max(1, len(key.parts))))
		statement, args := s.query.keys(key, searched[:n])
		full, err := s.readRows(ctx, c, statement, args, take, p)
		if err != nil {
			return err
		}
		searched = searched[n:]
		if full || len(searched) == 0 {
			p.More = full
			p.Sort()
			return nil
		}
	}
}

// appendTuple appends an encoding of key values that is another one for other values.
func appendTuple(b []byte, tuple [][]byte) []byte {
	for _, v := range tuple {
		b = appendPart(b, v)
	}
	return b
}

func appendPart(b, v []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(v))+1), v...)
}

func (s *shard) tupleOf(row []driver.Value) (name []byte, err error) {
	for _, at := range s.shape.columns.Key {
		var v []byte
		if row[at] != nil {
			if s.scratch, err = s.shape.values[at].append(s.emptied(), row[at]); err != nil {
				return nil, fmt.Errorf("column %q: %w", s.shape.columns.List[at].Name, err)
			}
			v = s.scratch
		}
		name = appendPart(name, v)
	}
	return name, nil
}

// distinct returns each tuple once. Those with NULL find nothing: the columns are NOT NULL.
func (l lookup) distinct(keys [][][]byte) (searched [][][]byte) {
	seen := make(map[string]bool, len(keys))
	for _, tuple := range keys {
		part := make([][]byte, 0, len(l.parts))
		for _, p := range l.parts {
			if p.at < len(tuple) && tuple[p.at] != nil {
				part = append(part, tuple[p.at])
			}
		}
		if name := string(appendTuple(nil, part)); len(part) == len(l.parts) && !seen[name] {
			seen[name] = true
			searched = append(searched, part)
		}
	}
	return searched
}

// forms is the number of ways in which a plain value may be stored: text, bytes, number.
const forms = 3

func (q queries) keys(l lookup, searched [][][]byte) (statement string, args []driver.NamedValue) {
	if len(searched) == 0 || len(l.parts) == 0 {
		bound := " AND FALSE"
		if len(searched) > 0 {
			bound = ""
		}
		return strings.Replace(q.byKey, keysSlot, q.table+" "+l.by+" WHERE "+q.read+bound, 1), nil
	}
	var names, conditions []string
	for i, part := range l.parts {
		var of []string
		for form := range forms {
			of = append(of, fmt.Sprintf("bridge_key%d_%d", i, form))
		}
		names = append(names, of...)
		conditions = append(conditions, part.column+" IN ("+strings.Join(of, ", ")+")")
	}
	var b strings.Builder
	b.WriteString("(WITH bridge_keys (" + strings.Join(names, ", ") + ") AS (VALUES ")
	for n, tuple := range searched {
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString("(?" + strings.Repeat(", ?", len(names)-1) + ")")
		for _, v := range tuple {
			for _, form := range storedForms(v) {
				args = append(args, driver.NamedValue{Ordinal: len(args) + 1, Value: form})
			}
		}
	}
	b.WriteString(") SELECT * FROM bridge_keys) CROSS JOIN " + q.table + " " + l.by + " WHERE " + strings.Join(conditions, " AND ") + " AND " + q.read)
	return strings.Replace(q.byKey, keysSlot, b.String(), 1), args
}

// storedForms returns what SQLite may hold of a plain value, NULL where it shows no number.
func storedForms(v []byte) [forms]driver.Value {
	text := string(v)
	stored := [forms]driver.Value{text, append([]byte{}, v...), nil}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		stored[2] = n
	} else if f, err := strconv.ParseFloat(text, 64); err == nil || f > 1 || f < -1 {
		stored[2] = f
	}
	return stored
}
