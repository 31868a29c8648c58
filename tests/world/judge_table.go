package world

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"unicode/utf8"

	"example.org/bridge/event"
)

// Entry is what the last message about an entity says.
type Entry struct {
	deleted bool
	// members are the members of the columns, nil for a deleted entity; a null is left out.
	members map[string]string
}

// Fold is what a consumer knows that has read everything and keeps the last message about each
// entity.
type Fold map[EntityKey]Entry

// Add folds one event.
func (f Fold) Add(e *Event) {
	if e.Op == event.Deleted {
		f[e.entity] = Entry{deleted: true}
		return
	}
	members := make(map[string]string, len(e.Data))
	for member, raw := range e.Data {
		var text string
		switch {
		case string(raw) == "null":
			continue
		case json.Unmarshal(raw, &text) == nil:
			members[member] = text
		default:
			members[member] = string(raw)
		}
	}
	f[e.entity] = Entry{members: members}
}

// stateMembers are the members of an event about a row of workload.Capabilities, and what the
// database makes of the column in the form that docs/events.md names, save the white space of JSON.
// Those that do not belong to the state of a row are left out.
var stateMembers = map[string]string{
	"app": "app", "name": "name", "state": "state", "n": "CAST(n AS CHAR)", "price": "CAST(price AS CHAR)", "ratio": "ratio",
	"flags": "CAST(flags + 0 AS CHAR)", "raw": "TO_BASE64(raw)", "doc": "doc", "day": "DATE_FORMAT(day, '%Y-%m-%d')",
	"at":    "CONCAT(DATE_FORMAT(at, '%Y-%m-%dT%H:%i:%s'), '.', LPAD(MICROSECOND(at) DIV 1000, 3, '0'), 'Z')",
	"clock": "CAST(clock AS CHAR)", "mood": "mood", "tags": "tags", "note": "note", "deleted": "deleted",
}

// tableFold returns the fold that a consumer should have of a table of workload.Capabilities. Of
// columns that no workload writes, NULL and text that is no UTF-8, which is published as null, are
// left out.
func tableFold(t testing.TB, db *sql.DB, table string) Fold {
	t.Helper()
	names := slices.Sorted(maps.Keys(stateMembers))
	query := "SELECT "
	for i, name := range names {
		if i > 0 {
			query += ", "
		}
		query += stateMembers[name]
	}
	for _, name := range extraColumns(t, db, table) {
		names = append(names, name)
		query += ", CAST(" + name + " AS BINARY)"
	}
	f := make(Fold)
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	queryRows(t, db, query+" FROM "+table+" WHERE deleted = 0", into, func() {
		members := make(map[string]string, len(names))
		for i, v := range values {
			switch {
			case !v.Valid || isExtra(names[i]) && !utf8.ValidString(v.String):
			case names[i] == "doc":
				var doc bytes.Buffer
				if err := json.Compact(&doc, []byte(v.String)); err != nil {
					t.Fatalf("%s: %v", v.String, err)
				}
				members["doc"] = doc.String()
			default:
				members[names[i]] = v.String
			}
		}
		f[EntityKey{members["app"], members["name"]}] = Entry{members: members}
	})
	return f
}

// extraColumns returns the columns of a table that no workload writes.
func extraColumns(t testing.TB, db *sql.DB, table string) (names []string) {
	t.Helper()
	var name string
	queryRows(t, db, "SELECT column_name FROM information_schema.columns WHERE table_schema = database() AND table_name = '"+table+"'", []any{&name}, func() {
		if isExtra(name) {
			names = append(names, name)
		}
	})
	return names
}

// queryRows calls each with every row of a query, which is then in the variables that into points
// to.
func queryRows(t testing.TB, db *sql.DB, query string, into []any, each func()) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		each()
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// isExtra reports whether a column, or its member, is one that no workload writes and that belongs
// to the state of a row.
func isExtra(name string) bool {
	_, written := stateMembers[name]
	return !written && !slices.Contains([]string{"id", "created", "modified", "row"}, name)
}

// Compare notes what the fold of a bus has otherwise than a table.
func (f Fold) Compare(table Fold, v *Verdict) {
	for key, want := range table {
		got, ok := f[key]
		if !ok || got.deleted {
			v.Add("missing", "%s %q", key.App, key.Name)
			continue
		}
		for member := range stateMembers {
			if g, w := got.members[member], want.members[member]; g != w && !sameNumber(g, w) {
				v.Add("stale", "%s %q: %s is %q, the table has %q", key.App, key.Name, member, g, w)
			}
		}
		if is, was := got.extras(), want.extras(); !maps.Equal(is, was) {
			v.Add("content", "%s %q ends with %.300v, the table has %.300v", key.App, key.Name, is, was)
		}
	}
	for key, got := range f {
		if _, ok := table[key]; !ok && !got.deleted {
			v.Add("extra", "%s %q, state %s", key.App, key.Name, got.members["state"])
		}
	}
}

// extras returns the members of columns that no workload writes.
func (e Entry) extras() map[string]string {
	extras := make(map[string]string)
	for member, value := range e.members {
		if isExtra(member) {
			extras[member] = value
		}
	}
	return extras
}

// sameNumber reports whether two texts are the same floating-point number.
func sameNumber(a, b string) bool {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	return errA == nil && errB == nil && x == y && fmt.Sprint(x) == fmt.Sprint(y)
}
