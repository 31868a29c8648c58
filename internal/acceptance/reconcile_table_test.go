package acceptance

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"unicode/utf8"
)

// stateMembers are the members of an event about a row of workload.Capabilities, and what MariaDB makes of the column in the
// form that docs/events.md names. Those that do not belong to the state of a row are left out.
var stateMembers = map[string]string{
	"app": "app", "name": "name", "state": "state", "n": "CAST(n AS CHAR)", "price": "CAST(price AS CHAR)", "ratio": "ratio",
	"flags": "CAST(flags + 0 AS CHAR)", "raw": "TO_BASE64(raw)", "doc": "JSON_COMPACT(doc)", "day": "DATE_FORMAT(day, '%Y-%m-%d')",
	"at":    "CONCAT(DATE_FORMAT(at, '%Y-%m-%dT%H:%i:%s'), '.', LPAD(MICROSECOND(at) DIV 1000, 3, '0'), 'Z')",
	"clock": "CAST(clock AS CHAR)", "mood": "mood", "tags": "tags", "note": "note", "deleted": "deleted",
}

// tableFold returns the fold that a consumer should have of a table of workload.Capabilities.
func tableFold(t testing.TB, db *sql.DB, table string) fold {
	t.Helper()
	names := slices.Sorted(maps.Keys(stateMembers))
	query := "SELECT "
	for i, name := range names {
		if i > 0 {
			query += ", "
		}
		query += stateMembers[name]
	}
	rows, err := db.Query(query + " FROM " + table + " WHERE deleted = 0")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	f := make(fold)
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		members := make(map[string]string, len(names))
		for i, v := range values {
			if v.Valid {
				members[names[i]] = v.String
			}
		}
		f[entityKey{members["app"], members["name"]}] = folded{members: members}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return f
}

// difference returns what the fold of a bus has otherwise than a table, empty when nothing.
func (f fold) difference(table fold) string { return f.compare(table).verdict() }

// compare finds what the fold of a bus has otherwise than a table.
func (f fold) compare(table fold) (a account) {
	for key, want := range table {
		got, ok := f[key]
		if !ok || got.deleted {
			a.fault("missing", "%s %q", key.app, key.name)
			continue
		}
		for member := range stateMembers {
			if g, w := got.members[member], want.members[member]; g != w && !sameNumber(g, w) {
				a.fault("stale", "%s %q: %s is %q, the table has %q", key.app, key.name, member, g, w)
			}
		}
	}
	for key, got := range f {
		if _, ok := table[key]; !ok && !got.deleted {
			a.fault("extra", "%s %q, state %s", key.app, key.name, got.members["state"])
		}
	}
	return a
}

// extraColumns returns the columns of a table that no workload writes.
func extraColumns(t testing.TB, db *sql.DB, table string) (names []string) {
	t.Helper()
	rows, err := db.Query("SELECT column_name FROM information_schema.columns WHERE table_schema = database() AND table_name = ?", table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		if isExtra(name) {
			names = append(names, name)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// isExtra reports whether a column, or its member, is one that no workload writes and that belongs to the state of a row.
func isExtra(name string) bool {
	_, written := stateMembers[name]
	return !written && !slices.Contains([]string{"id", "created", "modified", "row"}, name)
}

// tableExtras returns what the entities of a table have in its extraColumns: text, as a consumer should have it. NULL, and text that is no UTF-8,
// which is published as null, are left out.
func tableExtras(t testing.TB, db *sql.DB, table string) map[entityKey]map[string]string {
	t.Helper()
	names := extraColumns(t, db, table)
	query := "SELECT app, name"
	for _, name := range names {
		query += ", CAST(" + name + " AS BINARY)"
	}
	rows, err := db.Query(query + " FROM " + table + " WHERE deleted = 0")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	extras := make(map[entityKey]map[string]string)
	values := make([][]byte, len(names))
	for rows.Next() {
		var key entityKey
		into := []any{&key.app, &key.name}
		for i := range values {
			into = append(into, &values[i])
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		extras[key] = make(map[string]string)
		for i, value := range values {
			if value != nil && utf8.Valid(value) {
				extras[key][names[i]] = string(value)
			}
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return extras
}

// compareExtras finds the entities whose last event has something else in extra columns than the table.
func (f fold) compareExtras(table map[entityKey]map[string]string) (a account) {
	for key, want := range table {
		has := make(map[string]string)
		for member, value := range f[key].members {
			if isExtra(member) {
				has[member] = value
			}
		}
		if !maps.Equal(has, want) {
			a.fault("content", "%s %q ends with %.300v, the table has %.300v", key.app, key.name, has, want)
		}
	}
	return a
}

// sameNumber reports whether two texts are the same floating-point number.
func sameNumber(a, b string) bool {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	return errA == nil && errB == nil && x == y && fmt.Sprint(x) == fmt.Sprint(y)
}
