package acceptance

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"bridge/internal/workload"
)

// account is what a judge found in a tape by the record of the workload.
type account struct {
	// lost are the rows that were committed, are still there and were not published.
	lost []workload.Row
	// faults are all other findings, the first few of each kind; counts has how many there are of a kind.
	faults []string
	counts map[string]int
	// published, repeated and late count messages, doubtful those of rows whose COMMIT nobody knows about.
	published, repeated, late, doubtful int
	// delay is from the answer to the COMMIT until a consumer had the row, lateDelay the same of late records only; ascending.
	delay, lateDelay []time.Duration
}

// expectations are what a judge demands beside what always holds.
type expectations struct {
	// steady says that the program was not restarted: what comes below a higher id of its place must be marked as late.
	steady bool
	// ascending demands ids in strictly ascending order at each place.
	ascending bool
	// reconciled says that rows may have been found by reconcile.
	reconciled bool
}

// kindsShown is how many faults of a kind are written out.
const kindsShown = 3

func (a *account) fault(kind, format string, args ...any) {
	if a.counts == nil {
		a.counts = make(map[string]int)
	}
	if a.counts[kind]++; a.counts[kind] <= kindsShown {
		a.faults = append(a.faults, kind+": "+fmt.Sprintf(format, args...))
	}
}

// judged is the first message of a row.
type judged struct {
	event string
	sum   [32]byte
}

// ruling is one judgement in the making.
type ruling struct {
	account
	want    expectations
	rows    map[string]*workload.Row
	first   map[string]judged
	owner   map[string]string
	highest map[string]uint64
	newest  map[string]int
	// aside are the tokens of rows that were put aside.
	aside map[string]bool
}

// newRuling begins to compare what a consumer received with what a workload did. Hand it all messages, then end it.
func newRuling(rows []workload.Row, want expectations) *ruling {
	r := &ruling{
		want: want, rows: make(map[string]*workload.Row, len(rows)), first: make(map[string]judged, len(rows)),
		owner: make(map[string]string, len(rows)), highest: make(map[string]uint64), newest: make(map[string]int),
	}
	for i := range rows {
		r.rows[rows[i].Token] = &rows[i]
	}
	return r
}

// judgeTape is the ruling about messages.
func judgeTape(messages []received, rows []workload.Row, want expectations) account {
	r := newRuling(rows, want)
	for _, m := range messages {
		r.message(m)
	}
	return r.end()
}

// end looks for what is missing.
func (r *ruling) end() account {
	for _, row := range r.rows {
		if _, ok := r.first[row.Token]; !ok && row.Fate == workload.Committed && row.GoneFrom.IsZero() && !r.aside[row.Token] {
			r.lost = append(r.lost, *row)
		}
	}
	slices.SortFunc(r.lost, func(a, b workload.Row) int { return a.Begun.Compare(b.Begun) })
	slices.Sort(r.delay)
	slices.Sort(r.lateDelay)
	return r.account
}

func (r *ruling) message(m received) {
	var e struct {
		Meta struct{ ID string }
		Data struct {
			Token, Entity, Body string
			ID                  *uint64
			Created             time.Time
			Row                 struct{ ID uint64 }
		}
	}
	if err := json.Unmarshal(m.value, &e); err != nil {
		r.fault("not JSON", "%v: %.200s", err, m.value)
		return
	}
	token, id := e.Data.Token, e.Data.Row.ID
	row := r.rows[token]
	if row == nil {
		r.fault("of no row", "%.200s", m.value)
		return
	}
	now := judged{event: e.Meta.ID, sum: sha256.Sum256(m.value)}
	if was, ok := r.first[token]; ok {
		if r.repeated++; was != now {
			r.fault("repeated otherwise", "row %d (%s): %.200s", id, token, m.value)
		}
		return
	}
	if other, ok := r.owner[e.Meta.ID]; ok {
		r.fault("shared event id", "%s and %s have %s", other, token, e.Meta.ID)
	}
	r.first[token], r.owner[e.Meta.ID] = now, token
	r.published++
	if e.Data.Entity != row.Entity || row.ID != 0 && row.ID != id {
		r.fault("not the row", "row %d of %s, the record says %+v", id, e.Data.Entity, *row)
	}
	// Messages that a test has planted have no id, rows that it has written itself another body.
	otherwise := strings.HasPrefix(e.Data.Body, "{") && (!ofVersion(e.Data.Body, row.Version) || awayFrom(e.Data.Created, row))
	if otherwise || e.Data.ID != nil && *e.Data.ID != id {
		r.fault("content", "row %d (%s), version %d, begun %s: %s", id, token, row.Version, row.Begun.UTC(), m.value)
	}
	r.fate(m, row, id)
	r.order(m, row, id)
}

// ofVersion reports whether a body is one that the workload writes for a version.
func ofVersion(body string, version int) bool {
	var b struct {
		Kind    string
		Version int
	}
	return json.Unmarshal([]byte(body), &b) == nil && b.Version == version && strings.Trim(b.Kind, "abcdefghijklmnopqrstuvwxyz-") == ""
}

// awayFrom reports whether a time of creation is not one of the transaction: a statement may wait for a lock, or a server stand still.
func awayFrom(created time.Time, row *workload.Row) bool {
	return !created.IsZero() && (created.Before(row.Begun.Add(-2*time.Second)) || !row.CommitBegun.IsZero() && created.After(row.CommitBegun.Add(2*time.Second)))
}

// fate judges that only what was committed is published, and only then.
func (r *ruling) fate(m received, row *workload.Row, id uint64) {
	switch {
	case row.Fate == workload.RolledBack:
		r.fault("rolled back", "row %d (%s) was published", id, row.Token)
	case row.Fate == workload.Unknown:
		r.doubtful++
	case row.Fate != workload.Committed:
		r.fault("not committed", "row %d (%s) is %s", id, row.Token, row.Fate)
	case m.at.Before(row.CommitBegun):
		r.fault("before its commit", "row %d (%s) came %s before it", id, row.Token, row.CommitBegun.Sub(m.at))
	case !row.Ambiguous:
		delay := max(0, m.at.Sub(row.CommitEnded))
		r.delay = append(r.delay, delay)
		if m.headers["bridge-origin"] == "late" {
			r.lateDelay = append(r.lateDelay, delay)
		}
	}
}

// order judges the order of first occurrences, and the origins.
func (r *ruling) order(m received, row *workload.Row, id uint64) {
	origin, overtaken := m.headers["bridge-origin"], id < r.highest[m.place]
	if origin == "late" {
		r.late++
	}
	switch {
	case origin == "reconcile" && r.want.reconciled:
	case origin != "late" && origin != "tail":
		r.fault("origin", "row %d has the origin %q", id, origin)
	case overtaken && origin == "tail" && r.want.steady:
		r.fault("not marked as late", "row %d came behind %d", id, r.highest[m.place])
	}
	if overtaken && r.want.ascending {
		r.fault("not ascending", "row %d came behind %d", id, r.highest[m.place])
	}
	r.highest[m.place] = max(r.highest[m.place], id)
	if row.Fate != workload.Committed {
		return
	}
	if newest := r.newest[row.Entity]; newest > row.Version {
		r.fault("order of an entity", "version %d of %s (row %d) came behind version %d", row.Version, row.Entity, id, newest)
	}
	r.newest[row.Entity] = max(r.newest[row.Entity], row.Version)
}

// percentile returns the value below which the part p of ascending values lies.
func percentile(ascending []time.Duration, p float64) time.Duration {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[min(len(ascending)-1, int(p*float64(len(ascending))))]
}

// figures describes delays for a log.
func figures(ascending []time.Duration) string {
	if len(ascending) == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %s p99 %s max %s", percentile(ascending, 0.5).Round(time.Millisecond),
		percentile(ascending, 0.99).Round(time.Millisecond), ascending[len(ascending)-1].Round(time.Millisecond))
}

func (a account) String() string {
	return fmt.Sprintf("%d rows published, %d late, %d repeats, %d doubtful, %d lost; from commit to consumer: all %s, late ones %s",
		a.published, a.late, a.repeated, a.doubtful, len(a.lost), figures(a.delay), figures(a.lateDelay))
}

// verdict returns what is wrong, empty when nothing is.
func (a account) verdict() string {
	list := slices.Clone(a.faults)
	for kind, n := range a.counts {
		if n > kindsShown {
			list = append(list, fmt.Sprintf("%s: %d in all", kind, n))
		}
	}
	for i, row := range a.lost {
		if i == kindsShown {
			list = append(list, fmt.Sprintf("lost: %d rows in all", len(a.lost)))
			break
		}
		list = append(list, fmt.Sprintf("lost: %s of %s, committed %s after it was begun", row.Token, row.Table, row.CommitEnded.Sub(row.Begun)))
	}
	return strings.Join(list, "\n")
}
