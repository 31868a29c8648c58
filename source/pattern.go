package source

import (
	"context"
	"slices"
	"strings"
)

// Lister is a Source that knows which tables there are.
type Lister interface {
	// Tables returns the tables that the login may see, in one statement. Views and the tables of
	// the server itself are left out.
	Tables(ctx context.Context) (TableList, error)
}

type TableList struct {
	Names []TableName
	// Inner are those of Names that the database makes beside others, as for a full-text index:
	// patterns match them, and nobody is told to choose one.
	Inner []TableName
	// Own is the database whose tables need not be named with it, empty for none.
	Own string
	// Writer says that the server takes writes: a table that it lacks is not there.
	Writer bool
}

// Settings returns the tables as TABLE names them, sorted: those of Own alone where there is one.
func (l TableList) Settings() (names []string) {
	for _, t := range l.Names {
		if slices.Contains(l.Inner, t) {
			continue
		}
		switch l.Own {
		case t.Database:
			names = append(names, t.Table)
		case "":
			names = append(names, t.Database+"."+t.Table)
		}
	}
	slices.Sort(names)
	return names
}

type TableName struct{ Database, Table string }

// IsPattern reports whether an item of ExpandTables stands for the tables that match it.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?") }

// MayShare reports whether a text can match two patterns, either of which may be a plain text.
func MayShare(a, b string) bool { return meet(a, b, true) }

// meet reports whether a text matches both. other is a pattern only where both is set.
func meet(pattern, other string, both bool) bool {
	if !IsPattern(pattern) && !(both && IsPattern(other)) {
		return pattern == other
	}
	p, q := []rune(pattern), []rune(other)
	wild := func(c, of rune) bool { return both && c == of }
	// below[j] says it of what is left of p and of q from j on, now that of one rune of p more.
	below, now := make([]bool, len(q)+1), make([]bool, len(q)+1)
	for i := len(p); i >= 0; i-- {
		for j := len(q); j >= 0; j-- {
			switch {
			case i == len(p) && j == len(q):
				now[j] = true
			case i < len(p) && p[i] == '*':
				now[j] = below[j] || j < len(q) && now[j+1]
			case j < len(q) && wild(q[j], '*'):
				now[j] = now[j+1] || i < len(p) && below[j]
			default:
				now[j] = i < len(p) && j < len(q) && (p[i] == '?' || wild(q[j], '?') || p[i] == q[j]) && below[j+1]
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
	return meet(wanted, t.Database, false) && meet(table, t.Table, false) && !t.migrated()
}

// migrated reports whether gh-ost or pt-online-schema-change has made a table.
func (t TableName) migrated() bool {
	ends := func(end string) bool { return strings.HasSuffix(t.Table, end) }
	return strings.HasPrefix(t.Table, "_") && slices.ContainsFunc([]string{"_gho", "_ghc", "_del", "_new", "_old"}, ends)
}
