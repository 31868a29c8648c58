package source

import (
	"context"
	"strings"
)

// Lister is a Source that knows which tables there are.
type Lister interface {
	// Tables returns the tables that the login may see, in one statement. Views and the tables of
	// the server itself are left out.
	Tables(ctx context.Context) (TableList, error)
}

// TableList is what a Lister returns.
type TableList struct {
	Names []TableName
	// Writer says that the server takes writes: a table that it lacks is not there.
	Writer bool
}

// TableName names a table of a server.
type TableName struct{ Database, Table string }

// IsPattern reports whether an item of ExpandTables stands for the tables that match it.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?") }

// MayShare reports whether a text can match two patterns, either of which may be a plain text.
func MayShare(a, b string) bool {
	if !IsPattern(a) && !IsPattern(b) {
		return a == b
	}
	p, q := []rune(a), []rune(b)
	// below[j] says it of what is left of p and of q from j on, now that of one rune of p more.
	below, now := make([]bool, len(q)+1), make([]bool, len(q)+1)
	for i := len(p); i >= 0; i-- {
		for j := len(q); j >= 0; j-- {
			switch {
			case i == len(p) && j == len(q):
				now[j] = true
			case i < len(p) && p[i] == '*':
				now[j] = below[j] || j < len(q) && now[j+1]
			case j < len(q) && q[j] == '*':
				now[j] = now[j+1] || i < len(p) && below[j]
			default:
				now[j] = i < len(p) && j < len(q) && (p[i] == '?' || q[j] == '?' || p[i] == q[j]) && below[j+1]
			}
		}
		below, now = now, below
	}
	return below[0]
}

// Match reports whether t matches a pattern of a table, "table" or "database.table", where * stands
// for any number of characters and ? for one. database is that of a pattern without one. What
// migrations leave behind, or are about to exchange, matches nothing.
func (t TableName) Match(pattern, database string) bool {
	wanted, table, qualified := strings.Cut(pattern, ".")
	if !qualified {
		wanted, table = database, pattern
	}
	return matchText(wanted, t.Database) && matchText(table, t.Table) && !t.migrated()
}

// migrated reports whether gh-ost or pt-online-schema-change has made a table.
func (t TableName) migrated() bool {
	if !strings.HasPrefix(t.Table, "_") {
		return false
	}
	for _, end := range []string{"_gho", "_ghc", "_del", "_new", "_old"} {
		if strings.HasSuffix(t.Table, end) {
			return true
		}
	}
	return false
}

// matchText matches a pattern of * and ? against a whole text, in time proportional to the product
// of their lengths.
func matchText(pattern, text string) bool {
	if !IsPattern(pattern) {
		return pattern == text
	}
	p, s := []rune(pattern), []rune(text)
	// Where the last * was, and what it had taken: a longer piece is tried from there.
	star, taken := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(p) && p[i] == '*':
			star, taken = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == s[j]):
			i++
			j++
		case star >= 0:
			taken++
			i, j = star+1, taken
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
