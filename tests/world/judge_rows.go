package world

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/workload"
)

// rowRecord judges events by the rows that were inserted, each of which has a token of its own.
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

func newRowRecord(j *Judge, rows []workload.Row) *rowRecord {
	r := &rowRecord{
		Judge: j, rows: make(map[string]*workload.Row, len(rows)), published: make(map[digest]struct{}, len(rows)),
		highest: make(map[string]uint64), passed: make(map[string]uint64), newest: make(map[string]int),
	}
	for i := range rows {
		r.add(&rows[i])
	}
	return r
}

// add enters rows that were recorded since.
func (r *rowRecord) add(rows ...*workload.Row) {
	for _, row := range rows {
		r.rows[row.Token] = row
	}
}

func (r *rowRecord) message(*Event) {}

// isPublished reports whether the row with a token was published.
func (r *rowRecord) isPublished(token string) bool {
	_, published := r.published[digestOf(token)]
	return published
}

// due reports whether a row has to be published.
func due(row *workload.Row) bool {
	return row.Outcome == workload.Committed && row.GoneFrom.IsZero()
}

func (r *rowRecord) end() {
	for token, row := range r.rows {
		if due(row) && !r.isPublished(token) {
			r.Lost = append(r.Lost, *row)
		}
	}
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

// ofVersion reports whether a body is one that the workload writes for a version.
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

// outcome judges that only what was committed is published, and only then.
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

// order judges the order of first occurrences, and the origins.
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
