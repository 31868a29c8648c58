package acceptance

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
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

// sameNumber reports whether two texts are the same floating-point number.
func sameNumber(a, b string) bool {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	return errA == nil && errB == nil && x == y && fmt.Sprint(x) == fmt.Sprint(y)
}
