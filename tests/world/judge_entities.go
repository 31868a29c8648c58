package world

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"example.org/bridge/client/bus"
	"example.org/bridge/event"
	"example.org/bridge/tests/workload"
)

// EntityKey is an entity of a table with the key columns app and name.
type EntityKey struct{ App, Name string }

func (k EntityKey) text() string { return escapeKey(k.App) + "+" + escapeKey(k.Name) }

// Of columns that no workload writes and that belong to the state of a row. A null is left out.
func (e *Event) extra() map[string]string {
	extra := make(map[string]string)
	for member, value := range extras(e.Data) {
		if string(value) != "null" {
			extra[member] = string(value)
		}
	}
	return extra
}

func (e *Event) matches(v workload.Version) bool {
	switch {
	case e.Op != event.Deleted:
		return v.Condition == workload.Live && v.State == e.state
	case e.Reason == "TOMBSTONE":
		return v.Condition == workload.Tombstone
	case e.Reason == "FILTERED":
		return v.Condition == workload.Filtered
	}
	return v.Condition == workload.Absent
}

type chain struct {
	last Event
	// version is the number of the version that the last event is about, at least.
	version int
	// disturbed says that an event came behind those of a younger run.
	disturbed bool
	// said are the operations of its events, where the bus forgets them.
	said map[string]event.Op
	// gone is when the bus stored its newest message, if that says that it is deleted; run is the
	// epoch of that message.
	gone time.Time
	run  uint64
}

// arrives notes the newest message. It reports whether the bus may have forgotten the entity when
// the process read it that has published the message: the message before says that the entity is
// deleted, is of an earlier run, and as old as that takes.
func (c *chain) arrives(e *Event, forgets time.Duration) (forgotten bool) {
	forgotten = forgets > 0 && !c.gone.IsZero() && c.run < e.stated.Epoch && e.Stored.Sub(c.gone) >= forgets
	c.gone, c.run = time.Time{}, e.stated.Epoch
	if e.Op == event.Deleted {
		c.gone = e.Stored
	}
	return forgotten
}

// before returns the event that e has to follow: the last one, or where the bus may have forgotten
// that, an earlier one that the program still knew.
func (c *chain) before(e *Event, forgets bool) *Event {
	if !forgets || c.last.Op != event.Deleted && c.last.ID != "" || c.last.stated.Epoch >= e.stated.Epoch {
		return &c.last
	}
	if len(e.Links) == 0 {
		return new(Event)
	}
	if op, ok := c.said[e.Links[0].Target]; ok {
		return &Event{ID: e.Links[0].Target, Op: op}
	}
	return &c.last
}

// In a column that no workload writes.
func (c *chain) shows(e *Event) bool {
	return e.Op == event.Modified && c.last.Op != event.Deleted && e.state == c.last.state &&
		!maps.Equal(e.extra(), c.last.extra())
}

func (c *chain) restated(e *Event) bool {
	return e.follows(c.last.ID) && e.Op != event.Added && (e.Op == event.Deleted) == (c.last.Op == event.Deleted) && e.state == c.last.state
}

type entityRecord struct {
	*Judge
	histories map[EntityKey]*workload.History
	chains    map[EntityKey]*chain
	// The same for each entity and whenever.
	contents map[uint64]digest
	fold     lasts
}

// SetHistories replaces the record by one that goes on.
func (j *Judge) SetHistories(histories []workload.History) {
	j.record.(*entityRecord).histories = historiesByEntity(histories)
}

func historiesByEntity(histories []workload.History) map[EntityKey]*workload.History {
	of := make(map[EntityKey]*workload.History, len(histories))
	for i := range histories {
		of[EntityKey{histories[i].App, histories[i].Name}] = &histories[i]
	}
	return of
}

// message folds an event: a consumer that does not know repeats folds them as well.
func (r *entityRecord) message(e *Event) {
	if err := e.readEntity(); err != nil {
		r.Add("no event", "%v: %.300s", err, e.Value)
	}
	r.fold.add(e)
	c := r.chains[e.entity]
	if c == nil {
		c = &chain{version: -1}
		r.chains[e.entity] = c
	}
	e.forgotten = c.arrives(e, r.expect.Forgets)
	// A repeat, too: a consumer's fold goes back with it, and the program says the truth again.
	_, again := r.first[digestOf(e.ID)]
	c.disturbed = c.disturbed || e.behind && !(again && r.expect.Hops)
}

func (e *Event) readEntity() error {
	if err := errors.Join(e.member("app", &e.entity.App), e.member("name", &e.entity.Name)); err != nil || e.Op == event.Deleted {
		return err
	}
	var state string
	if err := e.member("state", &state); err != nil {
		return err
	}
	_, err := fmt.Sscanf(state, "s%d", &e.state)
	return err
}

func (r *entityRecord) event(e *Event) {
	c := r.chains[e.entity]
	if r.expect.Forgets > 0 {
		defer func() {
			if c.said == nil {
				c.said = make(map[string]event.Op)
			}
			c.said[e.ID] = e.Op
		}()
	}
	r.content(e)
	r.key(e, e.entity.text())
	if !slices.Contains([]string{"tail", "late", "modified", "reconcile", "snapshot"}, e.Origin()) {
		r.Add("origin", "%s", e)
	}
	if c.disturbed {
		// Where it was false, the truth follows: the end is judged.
		c.last = *e
		return
	}
	if r.expect.Lossy && c.restated(e) {
		r.Restated++
		c.last = *e
		return
	}
	if r.orphan(e) {
		r.Orphans++
	} else {
		r.compareToLast(c, e)
	}
	if !c.shows(e) {
		r.order(c, e)
	}
	c.last = *e
}

// again judges that nothing older is published again behind something newer.
func (r *entityRecord) again(e *Event) {
	if c := r.chains[e.entity]; !c.disturbed && c.last.ID != e.ID {
		r.Add("order of an entity", "%s is published again behind %s", e, &c.last)
	}
}

// orphan reports whether an event follows on one that the bus has lost: the first of its entity, or
// one behind an older event, which the program has published before it knew of the loss. `bridge
// verify` has to find as many.
func (r *entityRecord) orphan(e *Event) bool {
	if !r.expect.Lossy || len(e.Links) != 1 {
		return false
	}
	_, there := r.first[digestOf(e.Links[0].Target)]
	return !there
}

func (r *entityRecord) content(e *Event) {
	if e.Op == event.Deleted {
		return
	}
	var b strings.Builder
	for _, member := range slices.Sorted(maps.Keys(stateMembers)) {
		if value := e.Data[member]; member != "app" && member != "name" && string(value) != "null" {
			fmt.Fprintf(&b, "%s=%s ", member, value)
		}
	}
	now := digestOf(b.String())
	if was, ok := r.contents[e.state]; ok && was != now {
		r.Add("content", "%s has %s, another event of that state has not", e, b.String())
	}
	r.contents[e.state] = now
}

func (r *entityRecord) compareToLast(c *chain, e *Event) {
	last := c.before(e, r.expect.Forgets > 0)
	known := last == &c.last
	switch first := last.ID == ""; {
	case first && len(e.Links) > 0:
		r.Add("link", "%s is the first and follows on %s", e, e.Links[0].Target)
	case !first && !e.follows(last.ID):
		r.Add("link", "%s follows on %v, want %s of %s", e, e.Links, last.ID, last)
	}
	living := last.ID != "" && last.Op != event.Deleted
	gone := e.Reason != "" && e.Reason != "TOMBSTONE" && (e.Reason != "FILTERED" || !r.expect.Hops || c.last.ID == "")
	switch {
	case e.Op == event.Added && living, e.Op == event.Modified && !living, gone && !living && known:
		r.Add("operation", "%s comes behind %s", e, last)
	case e.Op == event.Modified && e.state == last.state && maps.Equal(e.extra(), last.extra()):
		r.Add("nothing new", "%s comes behind %s", e, last)
	case e.Reason == "TOMBSTONE" && last.Reason == "TOMBSTONE" && e.Row == last.Row:
		r.Add("nothing new", "%s comes behind %s", e, last)
	}
}

// order judges that the states of an entity come in the order in which they were there, and none
// that never was. Where an entity came back to a state the earliest one counts, which is the
// mildest judgement.
func (r *entityRecord) order(c *chain, e *Event) {
	h := r.histories[e.entity]
	if h == nil {
		r.Add("of no entity", "%s", e)
		return
	}
	from := c.version + 1
	if e.Op == event.Deleted && r.expect.Hops {
		from = max(0, c.version)
	}
	for i := from; i < len(h.Versions); i++ {
		if v := h.Versions[i]; e.matches(v) {
			if e.At.Before(v.CommitBegun) {
				if c.version >= 0 && e.matches(h.Versions[c.version]) {
					break
				}
				r.Add("before its commit", "%s came %s before it", e, v.CommitBegun.Sub(e.At))
			}
			c.version = i
			origin := e.Origin()
			r.Delays[origin] = append(r.Delays[origin], max(0, e.At.Sub(v.CommitEnded)))
			return
		}
	}
	if i := slices.IndexFunc(h.Doubtful, e.matches); i >= 0 && !e.At.Before(h.Doubtful[i].CommitBegun) {
		// It was there for a moment; what was there before it came back.
		c.version = max(-1, c.version-1)
		return
	}
	var since time.Time
	if len(h.Versions) > 0 {
		since = h.Versions[max(0, c.version)].CommitEnded
	}
	switch {
	case c.version >= 0 && e.matches(h.Versions[c.version]):
		r.Add("nothing new", "%s comes behind %s; %s", e, &c.last, about(h, c.version))
	case e.Op == event.Deleted && h.Existed(since, e.At):
		r.Add("deleted though it existed all the while", "%s comes behind %s; %s", e, &c.last, about(h, c.version))
	case slices.ContainsFunc(h.Versions, e.matches):
		r.Add("out of order", "%s comes behind %s; %s", e, &c.last, about(h, c.version))
	default:
		r.Add("of no state", "%s; %s", e, about(h, c.version))
	}
}

func about(h *workload.History, version int) string {
	var b strings.Builder
	for i := max(0, version-2); i < min(len(h.Versions), version+6); i++ {
		v := h.Versions[i]
		fmt.Fprintf(&b, "[%d: %s s%d row %d at %s] ", i, v.Condition, v.State, v.ID, v.CommitBegun.Format("05.000"))
	}
	return b.String()
}

// end judges nothing: the table is compared with the fold.
func (r *entityRecord) end() {}

// forget drops the last message of each entity but for what the next one is compared with.
func (r *entityRecord) forget() {
	for _, c := range r.chains {
		last := &c.last
		c.disturbed = false
		c.last = Event{
			ID: last.ID, Op: last.Op, Data: extras(last.Data), Row: last.Row, RowID: last.RowID, Reason: last.Reason, entity: last.entity, state: last.state,
			stated: bus.State{Epoch: last.stated.Epoch},
		}
	}
}
