package world

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"example.org/bridge/event"
	"example.org/bridge/tests/workload"
)

type rowRecord struct {
	*Judge
	rows map[string]*workload.Row
	// published holds the tokens of all rows that were published, also of those that are forgotten.
	published map[digest]struct{}
	// highest is the highest id of each topic-partition, passed that without the rows that came
	// ahead of the tail, newest the newest version of each entity.
	highest, passed map[string]uint64
	newest          map[string]int
}

// AddRows enters rows that were recorded since.
func (j *Judge) AddRows(rows ...*workload.Row) {
	for _, row := range rows {
		j.record.(*rowRecord).rows[row.Token] = row
	}
}

func (r *rowRecord) message(*Event) {}

// again judges nothing: a row is a fact, whatever followed.
func (r *rowRecord) again(*Event) {}

func (r *rowRecord) isPublished(token string) bool {
	_, published := r.published[digestOf(token)]
	return published
}

func due(row *workload.Row) bool {
	return row.Outcome == workload.Committed && row.GoneFrom.IsZero()
}

// Missing counts the rows that were committed and have not come so far.
func (j *Judge) Missing() int { return len(j.record.(*rowRecord).missing()) }

func (r *rowRecord) missing() (rows []workload.Row) {
	for token, row := range r.rows {
		if due(row) && !r.isPublished(token) {
			rows = append(rows, *row)
		}
	}
	return rows
}

func (r *rowRecord) end() {
	r.Lost = append(r.Lost, r.missing()...)
	slices.SortFunc(r.Lost, func(a, b workload.Row) int {
		return cmp.Or(a.Begun.Compare(b.Begun), strings.Compare(a.Token, b.Token))
	})
}

// forget drops the rows that are published or lost. The others may still come, against the rules or
// by them. Of an entity without such a row the versions that may still come are newer than all that
// came.
func (r *rowRecord) forget() {
	rows, newest := make(map[string]*workload.Row), make(map[string]int)
	for token, row := range r.rows {
		if due(row) || r.isPublished(token) {
			continue
		}
		rows[token] = row
		if version, ok := r.newest[row.Entity]; ok {
			newest[row.Entity] = version
		}
	}
	r.rows, r.newest = rows, newest
}

func (r *rowRecord) event(e *Event) {
	var token, entity, body string
	var created time.Time
	err := errors.Join(e.member("token", &token), e.member("entity", &entity), e.member("body", &body), e.member("created", &created))
	row, published := r.rows[token], r.isPublished(token)
	if row == nil && !published || err != nil || e.Op == event.Deleted {
		r.Add("of no row", "%v %.200s", err, e.Value)
		return
	}
	if published {
		r.Add("repeated otherwise", "row %d (%s): %.200s", e.RowID, token, e.Value)
		return
	}
	r.published[digestOf(token)] = struct{}{}
	if entity != row.Entity || row.ID != 0 && row.ID != e.RowID {
		r.Add("not the row", "row %d of %s, the record says %+v", e.RowID, entity, *row)
	}
	r.key(e, escapeKey(row.Entity))
	// Rows that a test has written itself have another body.
	if strings.HasPrefix(body, "{") && (!ofVersion(body, row.Version) || awayFrom(created, row)) {
		r.Add("content", "row %d (%s), version %d, begun %s: %s", e.RowID, token, row.Version, row.Begun.UTC(), e.Value)
	}
	r.outcome(e, row)
	r.order(e, row)
}

func ofVersion(body string, version int) bool {
	var b struct {
		Kind    string
		Version int
	}
	return json.Unmarshal([]byte(body), &b) == nil && b.Version == version && strings.Trim(b.Kind, "abcdefghijklmnopqrstuvwxyz-") == ""
}

// awayFrom reports whether a time of creation is not one of the transaction: a statement may wait
// for a lock, or a server stand still.
func awayFrom(created time.Time, row *workload.Row) bool {
	return !created.IsZero() && (created.Before(row.Begun.Add(-2*time.Second)) || !row.CommitBegun.IsZero() && created.After(row.CommitBegun.Add(2*time.Second)))
}

func (r *rowRecord) outcome(e *Event, row *workload.Row) {
	switch {
	case row.Outcome == workload.RolledBack:
		r.Add("rolled back", "row %d (%s) was published", e.RowID, row.Token)
	case row.Outcome == workload.Unknown:
		r.Doubtful++
	case row.Outcome != workload.Committed:
		r.Add("not committed", "row %d (%s) is %s", e.RowID, row.Token, row.Outcome)
	case e.At.Before(row.CommitBegun):
		r.Add("before its commit", "row %d (%s) came %s before it", e.RowID, row.Token, row.CommitBegun.Sub(e.At))
	case !row.Ambiguous:
		r.Delays[e.Origin()] = append(r.Delays[e.Origin()], max(0, e.At.Sub(row.CommitEnded)))
	}
}

func (r *rowRecord) order(e *Event, row *workload.Row) {
	if e.behind {
		return
	}
	origin, highest, passed := e.Origin(), r.highest[e.Partition], r.passed[e.Partition]
	// An entity that is read by its key may have a row that the tail has yet to reach. That says
	// nothing about lower ids: the tail still brings them in their order.
	ahead := origin == "reconcile" && e.Op != event.Published && e.RowID > passed
	switch {
	case ahead || origin == "reconcile" && r.expect.Reconciled:
	case origin != "late" && origin != "tail":
		r.Add("origin", "row %d has the origin %q", e.RowID, origin)
	case e.RowID < passed && origin == "tail" && r.expect.Steady:
		r.Add("not marked as late", "row %d came behind %d", e.RowID, passed)
	}
	if e.RowID < highest && r.expect.Ascending {
		r.Add("not ascending", "row %d came behind %d", e.RowID, highest)
	}
	r.highest[e.Partition] = max(highest, e.RowID)
	if !ahead {
		r.passed[e.Partition] = max(passed, e.RowID)
	}
	if row.Outcome != workload.Committed {
		return
	}
	// What the bus has lost comes again behind what it took meanwhile.
	if newest := r.newest[row.Entity]; newest > row.Version && !r.expect.Lossy {
		r.Add("order of an entity", "version %d of %s came behind version %d: row %d from %s, %x %x, in %s at %s",
			row.Version, row.Entity, newest, e.RowID, origin, e.stated.Epoch, e.stated.Seq, e.Partition, e.At.Format("15:04:05.000"))
	}
	r.newest[row.Entity] = max(r.newest[row.Entity], row.Version)
}

// Entry is what the last message about an entity says.
type Entry struct {
	deleted    bool
	epoch, seq uint64
	// members are the members of the columns, nil for a deleted entity; a null is left out.
	members map[string]string
}

// Fold is what a consumer knows that has read everything and keeps the last message about each
// entity.
type Fold map[EntityKey]Entry

type lasts map[EntityKey]map[string]Entry

// fold returns what holds: across topic-partitions the message with the higher stamp.
func (l lasts) fold() Fold {
	f := make(Fold, len(l))
	for key, of := range l {
		var newest Entry
		for _, e := range of {
			if cmp.Or(cmp.Compare(e.epoch, newest.epoch), cmp.Compare(e.seq, newest.seq)) >= 0 {
				newest = e
			}
		}
		f[key] = newest
	}
	return f
}

func (l lasts) add(e *Event) {
	if l[e.entity] == nil {
		l[e.entity] = make(map[string]Entry)
	}
	now := Entry{deleted: e.Op == event.Deleted, epoch: e.stated.Epoch, seq: e.stated.Seq}
	if !now.deleted {
		now.members = membersOf(e)
	}
	l[e.entity][e.Partition] = now
}

func membersOf(e *Event) map[string]string {
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
	return members
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

// TableFold returns the fold that a consumer should have of tables of workload.Capabilities, whose
// live rows match a condition. Of columns that no workload writes, NULL and text that is no UTF-8,
// which is published as null, are left out.
func (w *World) TableFold(live string, tables ...string) Fold {
	w.T.Helper()
	f := make(Fold)
	for _, table := range tables {
		names, query := slices.Sorted(maps.Keys(stateMembers)), "SELECT "
		for _, name := range names {
			query += stateMembers[name] + ", "
		}
		var column string
		w.Each("SELECT column_name FROM information_schema.columns WHERE table_schema = database() AND table_name = '"+table+"'", []any{&column}, func() {
			if isExtra(column) {
				names = append(names, column)
				query += "CAST(" + column + " AS BINARY), "
			}
		})
		values, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		w.Each(strings.TrimSuffix(query, ", ")+" FROM "+table+" WHERE "+live, into, func() {
			members := make(map[string]string, len(names))
			for i, v := range values {
				switch {
				case !v.Valid || isExtra(names[i]) && !utf8.ValidString(v.String):
				case names[i] == "doc":
					var doc bytes.Buffer
					if err := json.Compact(&doc, []byte(v.String)); err != nil {
						w.T.Fatalf("%s: %v", v.String, err)
					}
					members["doc"] = doc.String()
				default:
					members[names[i]] = v.String
				}
			}
			key := EntityKey{members["app"], members["name"]}
			if _, twice := f[key]; twice {
				w.T.Errorf("two tables have %v at the end: the writers are wrong", key)
			}
			f[key] = Entry{members: members}
		})
	}
	return f
}

// No workload writes it and it belongs to the state of a row. A secret is masked.
func isExtra(name string) bool {
	_, written := stateMembers[name]
	return !written && !slices.Contains([]string{"id", "created", "modified", "row", "hidden", "secret"}, name)
}

func extras[V any](members map[string]V) map[string]V {
	members = maps.Clone(members)
	maps.DeleteFunc(members, func(member string, _ V) bool { return !isExtra(member) })
	return members
}

// Compare notes what the messages so far fold to otherwise than tables, Difference returns that.
func (j *Judge) Compare(tables Fold) {
	j.record.(*entityRecord).fold.fold().Compare(tables, &j.Verdict)
}

func (j *Judge) Difference(tables Fold) string {
	v := newVerdict()
	j.record.(*entityRecord).fold.fold().Compare(tables, &v)
	return v.Wrong()
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
		if is, was := extras(got.members), extras(want.members); !maps.Equal(is, was) {
			v.Add("content", "%s %q ends with %.300v, the table has %.300v", key.App, key.Name, is, was)
		}
	}
	for key, got := range f {
		if _, ok := table[key]; !ok && !got.deleted {
			v.Add("extra", "%s %q, state %s", key.App, key.Name, got.members["state"])
		}
	}
}

func sameNumber(a, b string) bool {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	return errA == nil && errB == nil && x == y && fmt.Sprint(x) == fmt.Sprint(y)
}
