package sqlite

import (
	"database/sql/driver"
	"fmt"
	"math"
	"strconv"
	"strings"

	"bridge/source"
)

// tableName is a table with its database, which is "main" but for names that cannot be found.
type tableName struct{ database, table string }

func nameTable(table string) tableName {
	if database, name, ok := strings.Cut(table, "."); ok {
		return tableName{database, name}
	}
	return tableName{"main", table}
}

// quoted returns the name as SQL.
func (t tableName) quoted() string { return quoteName(t.database) + "." + quoteName(t.table) }

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// queries are the statements of a shard.
type queries struct {
	// page has the parameters After, Through and Limit, ranges and ids the ranges and Limit.
	page, ranges, ids string
	// byKey has keysSlot where the keys go; table and id are names.
	byKey, table, id string
	// changes has the parameters from (included) and to (not included); greatest reads the greatest
	// MODIFIED. Both are "" when no index begins with MODIFIED.
	changes, greatest string
}

// keysSlot cannot stand in a statement otherwise.
const keysSlot = "\x00"

func newQueries(t tableName, sh *shape) queries {
	id := quoteName(sh.columns.List[sh.columns.ID].Name)
	from := t.quoted() + " " + sh.by()
	// The ranges come in order and are looked up one after the other: nothing is sorted.
	each := "(SELECT value AS bridge_range FROM json_each(?1)) CROSS JOIN " + from +
		" WHERE " + id + " BETWEEN bridge_range ->> 0 AND bridge_range ->> 1 LIMIT ?2"
	q := queries{
		page:   pageQuery(t, sh, from+" WHERE "+id+" > ?1 AND "+id+" <= ?2 ORDER BY "+id+" LIMIT ?3"),
		ranges: pageQuery(t, sh, each),
		ids:    "SELECT " + id + " FROM " + each,
		byKey:  pageQuery(t, sh, keysSlot),
		table:  t.quoted(),
		id:     id,
	}
	if m := sh.modified; m.by != "" {
		from := " FROM " + t.quoted() + " " + m.by + " WHERE " + m.column
		q.changes = "SELECT " + m.column + ", " + id + from + " >= ?1 AND " + m.column + " < ?2 AND " + id + " > 0 ORDER BY " + m.column
		q.greatest = "SELECT MAX(" + m.column + ") FROM " + t.quoted() + " " + m.by
	}
	return q
}

// pageQuery composes a statement of a page. Both parts go by the index of the id; the second is a
// subquery because ORDER BY and LIMIT would else hold for both.
func pageQuery(t tableName, sh *shape, from string) string {
	id := quoteName(sh.columns.List[sh.columns.ID].Name)
	var b strings.Builder
	// A highest id of another class is told by its class: text and blobs are above all numbers.
	b.WriteString("SELECT (SELECT schema_version FROM pragma_schema_version) || ' ' || (SELECT CASE typeof(m) WHEN 'integer' THEN m WHEN 'null' THEN 0 " +
		"ELSE typeof(m) END FROM (SELECT MAX(" + id + ") AS m FROM " + t.quoted() + "))")
	// What is beside the columns.
	beside, none := "", ""
	if sh.filter != "" {
		beside, none = ", "+source.Unmatched(sh.filter), ", NULL"
	}
	b.WriteString(strings.Repeat(", NULL", len(sh.columns.List)) + none)
	b.WriteString(" UNION ALL SELECT * FROM (SELECT NULL")
	for _, column := range sh.columns.List {
		b.WriteString(", " + selected(column))
	}
	b.WriteString(beside + " FROM " + from + ")")
	return b.String()
}

// selected returns the SQL that reads a column: JSON in SQLite's binary form (JSONB) becomes text,
// if it is not the text of a document in the bytes of a blob.
func selected(column source.Column) string {
	name := quoteName(column.Name)
	if column.Kind != source.JSON {
		return name
	}
	return "CASE WHEN typeof(" + name + ") = 'blob' AND NOT json_valid(CAST(" + name + " AS TEXT)) AND json_valid(" + name + ", 8) " +
		"THEN json(" + name + ") ELSE " + name + " END"
}

// by returns the clause that keeps the planner to the index of the id.
func (sh *shape) by() string {
	if sh.index == "" {
		// By the primary key, which is the table itself.
		return "NOT INDEXED"
	}
	return "INDEXED BY " + quoteName(sh.index)
}

// pageArgs returns the parameters for q. No id lies above 2^63-1, and the upper bound keeps texts
// away, which are above all numbers.
func pageArgs(q source.Query) []driver.NamedValue {
	through := uint64(math.MaxInt64)
	if q.Through > 0 {
		through = min(through, q.Through)
	}
	return []driver.NamedValue{
		{Ordinal: 1, Value: int64(min(q.After, math.MaxInt64))},
		{Ordinal: 2, Value: int64(through)},
		{Ordinal: 3, Value: int64(q.Limit)},
	}
}

// rangesArgs returns the parameters for ranges, ids above 2^63-1 left out.
func rangesArgs(ranges []source.Range, limit int) []driver.NamedValue {
	b := []byte{'['}
	for _, r := range ranges {
		if r.First > math.MaxInt64 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendUint(b, r.First, 10)
		b = append(b, ',')
		b = strconv.AppendUint(b, min(r.Last, math.MaxInt64), 10)
		b = append(b, ']')
	}
	return []driver.NamedValue{{Ordinal: 1, Value: string(append(b, ']'))}, {Ordinal: 2, Value: int64(limit)}}
}

// parseHead reads the first column of a page's first row: the schema version and the highest id.
func parseHead(head string, p *source.Page) (version string, err error) {
	version, highest, ok := strings.Cut(head, " ")
	if !ok {
		return "", malformedHead(head)
	}
	switch highest {
	case "real", "text", "blob":
		return "", fmt.Errorf("%w: the highest id is a %s, not an integer: correct or delete the row", source.ErrUnfit, highest)
	}
	id, err := strconv.ParseInt(highest, 10, 64)
	if err != nil {
		return "", malformedHead(head)
	}
	p.MaxID = uint64(max(id, 0))
	return version, nil
}

type malformedHead string

func (m malformedHead) Error() string {
	return "the first row of the page cannot be read: " + strconv.Quote(string(m))
}
