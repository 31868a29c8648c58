package sqlite

import (
	"context"
	"strings"
)

// uniqueIndexes returns, for every column that is unique by itself, the index that says so, by the
// column's name as upper writes it. It is "" for the primary key of a table that is its own index.
// Partial indexes and those on expressions do not count.
func (s *shard) uniqueIndexes(ctx context.Context, c *session, table tableInfo) (map[string]string, error) {
	// The columns of an index with their positions; expressions have no name.
	const query = `SELECT l.name AS "index", l.origin AS origin, x.name AS "column"
		FROM pragma_index_list(?1, 'main') AS l, pragma_index_xinfo(l.name, 'main') AS x
		WHERE l."unique" AND NOT l.partial AND x.key`
	type index struct {
		columns        int
		column, origin string
	}
	indexes := make(map[string]*index)
	var names []string
	err := c.query(ctx, query, func(get func(string) string) {
		name := get("index")
		if indexes[name] == nil {
			indexes[name] = &index{origin: get("origin")}
			names = append(names, name)
		}
		indexes[name].columns++
		indexes[name].column = get("column")
	}, table.name)
	if err != nil {
		return nil, err
	}
	unique := make(map[string]string)
	primary := false
	for _, name := range names {
		found := indexes[name]
		primary = primary || found.origin == "pk"
		if found.columns != 1 || found.column == "" {
			continue
		}
		column := upper(found.column)
		switch {
		case found.origin == "pk" && table.withoutRowID:
			unique[column] = ""
		case unique[column] == "" || found.origin == "pk":
			unique[column] = name
		}
	}
	// INTEGER PRIMARY KEY has no index because it is the table's own number of the row (the rowid).
	if alias := table.primaryKey(); alias != nil && !primary && !table.withoutRowID {
		unique[upper(alias.name)] = ""
	}
	return unique, nil
}

// primaryKey returns the column that is the primary key by itself, nil if there is none.
func (t tableInfo) primaryKey() (key *tableColumn) {
	for i := range t.columns {
		if !t.columns[i].primary {
			continue
		}
		if key != nil {
			return nil
		}
		key = &t.columns[i]
	}
	return key
}

// hasKeyword reports whether a statement holds an upper-case keyword outside of quotes and
// comments. AUTOINCREMENT cannot stand there as a name.
func hasKeyword(statement, keyword string) bool {
	for rest := statement; rest != ""; {
		switch c := rest[0]; {
		case c == '\'' || c == '"' || c == '`':
			// A doubled quote opens the next quote at once.
			rest = behind(rest[1:], string(c))
		case c == '[':
			rest = behind(rest, "]")
		case strings.HasPrefix(rest, "--"):
			rest = behind(rest, "\n")
		case strings.HasPrefix(rest, "/*"):
			rest = behind(rest[2:], "*/")
		case isWordByte(c):
			end := 1
			for end < len(rest) && isWordByte(rest[end]) {
				end++
			}
			if upper(rest[:end]) == keyword {
				return true
			}
			rest = rest[end:]
		default:
			rest = rest[1:]
		}
	}
	return false
}

func behind(text, end string) string {
	_, rest, _ := strings.Cut(text, end)
	return rest
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
