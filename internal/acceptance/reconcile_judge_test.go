package acceptance

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bridge/event"
	"bridge/internal/workload"
)

// entityKey is an entity of a table with the key columns app and name.
type entityKey struct{ app, name string }

// folded is what the last message about an entity says.
type folded struct {
	deleted bool
	// members are those of the columns, nil for a deleted entity; a null is left out.
	members map[string]string
}

// fold is what a consumer knows that has read everything and keeps the last message about each entity.
type fold map[entityKey]folded

// stateAccount is what a judge found in the events of entities.
type stateAccount struct {
	account
	// ops counts the events by what they say, origins by how bridge noticed.
	ops, origins map[string]int
	// delay is from the answer to the COMMIT of a state until a consumer had it, by the origin of the message; ascending.
	delays map[string][]time.Duration
	fold   fold
}

func (a stateAccount) String() string {
	var delays []string
	for origin, list := range a.delays {
		delays = append(delays, origin+" "+figures(list))
	}
	slices.Sort(delays)
	return fmt.Sprintf("%d events published, %d repeats, %v, origins %v; from commit to consumer: %s",
		a.published, a.repeated, a.ops, a.origins, strings.Join(delays, ", "))
}

// stateEvent is an event as a consumer decodes it.
type stateEvent struct {
	received
	ID, Type string
	op       event.Op
	Data     map[string]json.RawMessage
	Links    []struct{ Type, Target string }
	key      entityKey
	// state is the number in the column state, rowID the id of the row.
	state, rowID uint64
	reason       string
}

func decodeState(m received) (stateEvent, error) {
	var e struct {
		Meta  struct{ ID, Type string }
		Data  map[string]json.RawMessage
		Links []struct{ Type, Target string }
	}
	if err := json.Unmarshal(m.value, &e); err != nil {
		return stateEvent{}, err
	}
	s := stateEvent{received: m, ID: e.Meta.ID, Type: e.Meta.Type, op: opOf(e.Meta.Type), Data: e.Data, Links: e.Links}
	var row struct{ ID uint64 }
	for member, into := range map[string]any{"app": &s.key.app, "name": &s.key.name, "row": &row} {
		if err := json.Unmarshal(e.Data[member], into); err != nil {
			return stateEvent{}, fmt.Errorf("%s: %w", member, err)
		}
	}
	s.rowID = row.ID
	if s.op == event.Deleted {
		return s, json.Unmarshal(e.Data["reason"], &s.reason)
	}
	var state string
	if err := json.Unmarshal(e.Data["state"], &state); err != nil {
		return stateEvent{}, fmt.Errorf("state: %w", err)
	}
	_, err := fmt.Sscanf(state, "s%d", &s.state)
	return s, err
}

// extra returns the members of columns that no workload writes and that belong to the state of a row. A null is left out.
func (e stateEvent) extra() map[string]string {
	extra := make(map[string]string)
	for member, value := range e.Data {
		if isExtra(member) && string(value) != "null" {
			extra[member] = string(value)
		}
	}
	return extra
}

// matches reports whether the event can be about a version of its entity.
func (e stateEvent) matches(v workload.Version) bool {
	switch {
	case e.op != event.Deleted:
		return v.Condition == workload.Live && v.State == e.state
	case e.reason == "TOMBSTONE":
		return v.Condition == workload.Tombstone
	}
	return v.Condition == workload.Absent
}

func (e stateEvent) String() string {
	return fmt.Sprintf("%s %q %s%s row %d state s%d, %s", e.key.app, e.key.name, e.op, e.reason, e.rowID, e.state, e.headers["bridge-origin"])
}

// schemaOf compiles the schemas of a capability's events.
func stateSchemas(t testing.TB) map[event.Op]*jsonschema.Schema {
	schemas := make(map[event.Op]*jsonschema.Schema)
	for _, op := range []event.Op{event.Added, event.Modified, event.Deleted} {
		schemas[op] = compileSchema(t, event.Capability, op)
	}
	return schemas
}

// chain is what has been judged of one entity.
type chain struct {
	last stateEvent
	// version is the number of the version that the last event is about, at least.
	version int
}

// shows reports whether an event shows the version of the last one with another value of a column that no workload writes.
func (c *chain) shows(e stateEvent) bool {
	return e.op == event.Modified && c.last.op != event.Deleted && e.state == c.last.state &&
		!maps.Equal(e.extra(), c.last.extra())
}

// stateRuling is one judgement in the making.
type stateRuling struct {
	stateAccount
	schemas   map[event.Op]*jsonschema.Schema
	histories map[entityKey]*workload.History
	first     map[string][32]byte
	chains    map[entityKey]*chain
	// contents are the members of each state: the same for each entity and whenever.
	contents map[uint64]string
	// letters are the events that were put aside, nil for none.
	letters *letters
	// torn says that what was known of entities was lost. begunAnew are then those whose events begin a second time, and restated counts
	// events of theirs that have the id of an earlier one and other bytes.
	torn      bool
	begunAnew map[entityKey]bool
	restated  int
	// emptied says that the bus has lost all that it had. orphans counts events that follow on one of that.
	emptied bool
	orphans int
}

// newStateRuling begins to compare what a consumer received with what a workload did: each sequence of events about an entity must be one
// in which its states can have been read. Hand it all messages. The account of a consumer that is to have everything is checked by ended, too.
func newStateRuling(schemas map[event.Op]*jsonschema.Schema, histories []workload.History) *stateRuling {
	r := &stateRuling{
		stateAccount: stateAccount{
			ops: make(map[string]int), origins: make(map[string]int), delays: make(map[string][]time.Duration), fold: make(fold),
		},
		schemas: schemas, histories: make(map[entityKey]*workload.History, len(histories)),
		first: make(map[string][32]byte), chains: make(map[entityKey]*chain), contents: make(map[uint64]string),
		begunAnew: make(map[entityKey]bool),
	}
	for i := range histories {
		r.histories[entityKey{histories[i].App, histories[i].Name}] = &histories[i]
	}
	return r
}

// judgeStates is the ruling about messages.
func judgeStates(schemas map[event.Op]*jsonschema.Schema, messages []received, histories []workload.History) *stateRuling {
	r := newStateRuling(schemas, histories)
	for _, m := range messages {
		r.message(m)
	}
	for _, list := range r.delays {
		slices.Sort(list)
	}
	return r
}

func (r *stateRuling) message(m received) {
	e, err := decodeState(m)
	if err != nil {
		r.fault("no event", "%v: %.300s", err, m.value)
		return
	}
	// A consumer that does not know repeats folds them as well.
	r.fold.add(e)
	c := r.chains[e.key]
	if c == nil {
		c = &chain{version: -1}
		r.chains[e.key] = c
	}
	sum := sha256.Sum256(m.value)
	if was, ok := r.first[e.ID]; ok {
		r.repeated++
		again := r.anew(e) || r.begunAnew[e.key] && len(e.Links) == 1 && e.Links[0].Target == c.last.ID
		switch {
		case was == sum:
		case again:
			r.restated++
		default:
			r.fault("one id for two events", "%s: %.300s", e, m.value)
		}
		if !again {
			return
		}
	} else {
		r.first[e.ID] = sum
		r.published++
		r.ops[string(e.op)+strings.ToLower(e.reason)]++
		r.origins[m.headers["bridge-origin"]]++
		r.valid(e)
	}
	r.content(e)
	if r.anew(e) && c.last.ID != "" {
		// The state may be the one that came last.
		c.last, c.version = stateEvent{}, max(c.version-1, -1)
		r.begunAnew[e.key] = true
	}
	if aside := r.letters.aside(e); r.orphan(c, e) {
		r.orphans++
	} else if !aside {
		r.follows(c, e)
	} else if e.op == event.Modified && e.state == c.last.state {
		// What lay between the two is no state that the bus could take.
		c.last = e
		return
	}
	if !c.shows(e) {
		r.order(c, e)
	}
	c.last = e
}

// anew reports whether the chain of an entity begins with an event, though another may have begun before.
func (r *stateRuling) anew(e stateEvent) bool {
	return r.torn && len(e.Links) == 0 && (e.op == event.Added || e.reason == "TOMBSTONE")
}

// orphan reports whether an event follows on one that went with all that the bus had.
func (r *stateRuling) orphan(c *chain, e stateEvent) bool {
	if !r.emptied || c.last.ID != "" || len(e.Links) != 1 {
		return false
	}
	_, there := r.first[e.Links[0].Target]
	return !there
}

// valid judges an event by itself.
func (r *stateRuling) valid(e stateEvent) {
	schema := r.schemas[e.op]
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.value))
	if schema == nil || err != nil {
		r.fault("type", "%s: %v", e.Type, err)
	} else if err := schema.Validate(doc); err != nil {
		r.fault("schema", "%s: %v", e, err)
	}
	for name, want := range map[string]string{
		"eiffel-id": e.ID, "eiffel-type": e.Type, "bridge-row-id": fmt.Sprint(e.rowID), "content-type": "application/json",
	} {
		if got := e.headers[name]; got != want {
			r.fault("header", "%s: %s is %q, want %q", e, name, got, want)
		}
	}
	if !slices.Contains([]string{"tail", "late", "modified", "reconcile", "snapshot"}, e.headers["bridge-origin"]) {
		r.fault("origin", "%s", e)
	}
	if e.key.app+"+"+e.key.name != e.received.key && e.received.key != "" {
		r.fault("key", "%s has the key %q", e, e.received.key)
	}
}

// content judges what an event says of the row.
func (r *stateRuling) content(e stateEvent) {
	if id, ok := e.Data["id"]; ok && string(id) != fmt.Sprint(e.rowID) {
		r.fault("content", "%s has the id %s", e, id)
	}
	if e.op == event.Deleted {
		return
	}
	var b strings.Builder
	for _, member := range slices.Sorted(maps.Keys(stateMembers)) {
		if value := e.Data[member]; member != "app" && member != "name" && string(value) != "null" {
			fmt.Fprintf(&b, "%s=%s ", member, value)
		}
	}
	if was, ok := r.contents[e.state]; ok && was != b.String() {
		r.fault("content", "%s has %s, another event of that state %s", e, b.String(), was)
	}
	r.contents[e.state] = b.String()
}

// follows judges an event by the one before it about the entity.
func (r *stateRuling) follows(c *chain, e stateEvent) {
	switch first := c.last.ID == ""; {
	case first && len(e.Links) > 0:
		r.fault("link", "%s is the first and follows on %s", e, e.Links[0].Target)
	case !first && (len(e.Links) != 1 || e.Links[0].Target != c.last.ID):
		r.fault("link", "%s follows on %v, want %s of %s", e, e.Links, c.last.ID, c.last)
	}
	living := c.last.ID != "" && c.last.op != event.Deleted
	switch {
	case e.op == event.Added && living, e.op == event.Modified && !living, e.reason == "ABSENT_IN_SNAPSHOT" && !living:
		r.fault("operation", "%s comes behind %s", e, c.last)
	case e.op == event.Modified && e.state == c.last.state && maps.Equal(e.extra(), c.last.extra()):
		r.fault("nothing new", "%s comes behind %s", e, c.last)
	case e.reason == "TOMBSTONE" && c.last.reason == "TOMBSTONE" && e.rowID == c.last.rowID:
		r.fault("nothing new", "%s comes behind %s", e, c.last)
	}
}

// order judges that the states of an entity come in the order in which they were there, and none that never was. Where an entity came back
// to a state the earliest one counts, which is the mildest judgement.
func (r *stateRuling) order(c *chain, e stateEvent) {
	h := r.histories[e.key]
	if h == nil {
		r.fault("of no entity", "%s", e)
		return
	}
	for i := c.version + 1; i < len(h.Versions); i++ {
		if v := h.Versions[i]; e.matches(v) {
			if e.at.Before(v.CommitBegun) {
				if c.version >= 0 && e.matches(h.Versions[c.version]) {
					break
				}
				r.fault("before its commit", "%s came %s before it", e, v.CommitBegun.Sub(e.at))
			}
			c.version = i
			origin := e.headers["bridge-origin"]
			r.delays[origin] = append(r.delays[origin], max(0, e.at.Sub(v.CommitEnded)))
			return
		}
	}
	if i := slices.IndexFunc(h.Doubtful, e.matches); i >= 0 && !e.at.Before(h.Doubtful[i].CommitBegun) {
		// It was there for a moment; what was there before it came back.
		c.version = max(-1, c.version-1)
		return
	}
	var from time.Time
	if len(h.Versions) > 0 {
		from = h.Versions[0].CommitEnded
	}
	if c.version >= 0 {
		from = h.Versions[c.version].CommitEnded
	}
	switch {
	case c.version >= 0 && e.matches(h.Versions[c.version]):
		r.fault("nothing new", "%s comes behind %s; %s", e, c.last, about(h, c.version))
	case e.op == event.Deleted && h.Existed(from, e.at):
		r.fault("deleted though it existed all the while", "%s comes behind %s; %s", e, c.last, about(h, c.version))
	case slices.ContainsFunc(h.Versions, e.matches):
		r.fault("out of order", "%s comes behind %s; %s", e, c.last, about(h, c.version))
	default:
		r.fault("of no state", "%s; %s", e, about(h, c.version))
	}
}

// about describes a history from two versions before the given one on.
func about(h *workload.History, version int) string {
	var b strings.Builder
	for i := max(0, version-2); i < min(len(h.Versions), version+6); i++ {
		v := h.Versions[i]
		fmt.Fprintf(&b, "[%d: %s s%d row %d at %s] ", i, v.Condition, v.State, v.ID, v.CommitBegun.Format("05.000"))
	}
	return b.String()
}

// ended judges that the fold is what the entities are at the end.
func (r *stateRuling) ended() {
	for key, h := range r.histories {
		v := workload.Version{Condition: workload.Absent}
		if n := len(h.Versions); n > 0 {
			v = h.Versions[n-1]
		}
		last, ok := r.fold[key]
		switch state := fmt.Sprintf("s%d", v.State); {
		case v.Condition != workload.Live && ok && !last.deleted:
			r.fault("extra", "%s %q is %s at the end, the bus has %s", key.app, key.name, v.Condition, last.members["state"])
		case v.Condition == workload.Live && (!ok || last.deleted):
			r.fault("missing", "%s %q is %s at the end and the bus has it not (deleted: %v)", key.app, key.name, state, last.deleted)
		case v.Condition == workload.Live && last.members["state"] != state:
			r.fault("stale", "%s %q is %s at the end, the bus has %s", key.app, key.name, state, last.members["state"])
		}
	}
}

// add folds one event.
func (f fold) add(e stateEvent) {
	if e.op == event.Deleted {
		f[e.key] = folded{deleted: true}
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
	f[e.key] = folded{members: members}
}
