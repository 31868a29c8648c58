package fold

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// stamp is the number of a message: of the run of the program, and within that.
type stamp struct{ epoch, seq uint64 }

func (s stamp) less(o stamp) bool {
	return s.epoch < o.epoch || s.epoch == o.epoch && s.seq < o.seq
}

// event is a message as a consumer decodes it.
type event struct {
	stream, tp, id, kind string
	// key and state are those of an entity, token that of a row of a release stream.
	key, state, token string
	// now is what the event says of its entity.
	now condition
	// link is the event that this one follows, empty for none.
	link  string
	stamp stamp
	at    time.Time
}

func (e *event) String() string {
	if e.id == "" {
		return "no event"
	}
	return fmt.Sprintf("%s of %q, %v, id %.8s behind %.8s, stamp %d/%d, in %s", e.kind, e.key, version{e.now, e.state}, e.id, e.link, e.stamp.epoch, e.stamp.seq, e.tp)
}

// decode reads a message of a topic.
func decode(topic string, m world.Message) (*event, error) {
	var body struct {
		Meta  struct{ ID, Type string }
		Data  struct{ K, State, Reason, Token string }
		Links []struct{ Type, Target string }
	}
	document, err := world.Document(m)
	if err == nil {
		err = json.Unmarshal(document, &body)
	}
	if err != nil {
		return nil, err
	}
	e := &event{
		stream: m.Headers["bridge-stream"], tp: topic + "/" + m.Partition, id: body.Meta.ID,
		key: body.Data.K, state: body.Data.State, token: body.Data.Token, at: m.At,
	}
	for _, kind := range []string{"Added", "Modified", "Deleted", "Published"} {
		if strings.HasSuffix(body.Meta.Type, kind+"Event") {
			e.kind = kind
		}
	}
	switch {
	case e.id == "" || e.kind == "":
		return nil, fmt.Errorf("the id %q, the type %q", body.Meta.ID, body.Meta.Type)
	case e.kind == "Deleted" && body.Data.Reason == "TOMBSTONE":
		e.now, e.state = tombstone, ""
	case e.kind == "Deleted" && body.Data.Reason == "FILTERED":
		e.now, e.state = filtered, ""
	case e.kind == "Deleted":
		e.now, e.state = absent, ""
	default:
		e.now = live
	}
	for _, l := range body.Links {
		if l.Type != "PREVIOUS_VERSION" || e.link != "" {
			return nil, fmt.Errorf("links %v", body.Links)
		}
		e.link = l.Target
	}
	fields := strings.Split(m.Headers["bridge-state"], " ")
	if len(fields) < 3 {
		return nil, fmt.Errorf("bridge-state is %q", m.Headers["bridge-state"])
	}
	if e.stamp.epoch, err = strconv.ParseUint(fields[1], 16, 64); err == nil {
		e.stamp.seq, err = strconv.ParseUint(fields[2], 16, 64)
	}
	return e, err
}

// condition says what a table has of an entity.
type condition uint8

const (
	absent condition = iota
	live
	tombstone
	// filtered: its row does not match FILTER.
	filtered
)

// version is what one commit has made of an entity.
type version struct {
	condition condition
	state     string
}

func (v version) String() string {
	return map[condition]string{absent: "absent", live: "live ", tombstone: "tombstone", filtered: "filtered"}[v.condition] + v.state
}

// record is what the writers of a stream have committed. It is safe for concurrent use.
type record struct {
	mu        sync.Mutex
	histories map[string]*history
}

// history has the versions of one entity in the order of their commits. Those before the one that
// was met last are dropped.
type history struct{ versions []version }

func newRecord() *record { return &record{histories: make(map[string]*history)} }

// add enters what a commit has made of an entity.
func (r *record) add(key string, v version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.histories[key]
	if h == nil {
		h = &history{versions: []version{{}}}
		r.histories[key] = h
	}
	if h.versions[len(h.versions)-1] != v {
		h.versions = append(h.versions, v)
	}
}

// present returns the states of the entities that have a live row.
func (r *record) present() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := make(map[string]string)
	for key, h := range r.histories {
		if v := h.versions[len(h.versions)-1]; v.condition == live {
			states[key] = v.state
		}
	}
	return states
}

// pass drops the versions of an entity before the first one that fits, and returns false where none
// does.
func (r *record) pass(key string, fits func(version) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.histories[key]
	if h == nil {
		return false
	}
	for i, v := range h.versions {
		if fits(v) {
			h.versions = h.versions[i:]
			return true
		}
	}
	return false
}

// of returns the versions of an entity that are left.
func (r *record) of(key string) []version {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.histories[key]; h != nil {
		return append([]version(nil), h.versions...)
	}
	return nil
}

// judge compares what arrived with what the writers recorded.
type judge struct {
	world.Verdict
	streams map[string]*folded
	// rows are the events of the rows of release streams, by token.
	rows map[string]string
	// ids has what each event says that was met, stamps the event of each stamp.
	ids    map[string]said
	stamps map[stamp]string
	// starts are when the processes of the program began.
	starts []time.Time
	// once: there may be no repeats.
	once bool
	// compacted is the stream whose topic is compacted, empty for none, and before the last message
	// of each topic-partition.
	compacted string
	before    map[string]world.Message
	nulls     int
	// forgets says that its tombstones go after some seconds.
	forgets bool
	// repeats counts messages with the id of an earlier one, late those that the bus has stored
	// when a later process had begun.
	repeats, late int
}

// said is what an event says of its entity.
type said struct {
	stream, key string
	now         condition
	// at counts the events that came before.
	at int
}

// folded is one stream.
type folded struct {
	record   *record
	entities map[string]*chain
}

// chain is one entity as the bus has it.
type chain struct {
	// last is its last message in each topic-partition.
	last map[string]*event
	// fresh are the events that came since the last call of check, tip is the one before.
	fresh []*event
	tip   event
}

func newJudge(records map[string]*record) *judge {
	j := &judge{
		streams: make(map[string]*folded), rows: make(map[string]string), ids: make(map[string]said),
		stamps: make(map[stamp]string), before: make(map[string]world.Message),
	}
	for stream, r := range records {
		j.streams[stream] = &folded{record: r, entities: make(map[string]*chain)}
	}
	return j
}

// pair judges that a message without a body follows each deleted event of the stream that is
// compacted, and nothing else.
func (j *judge) pair(tp string, m world.Message) {
	last := j.before[tp]
	j.before[tp] = m
	deleted := strings.HasSuffix(world.TypeOf(last), "DeletedEvent") && last.Value != nil && last.Headers["bridge-stream"] == j.compacted
	if m.Value == nil {
		j.nulls++
	}
	if deleted != (m.Value == nil) || deleted && (m.Key != last.Key || m.Headers["eiffel-id"] != last.Headers["eiffel-id"]) {
		j.Add("a tombstone", "in %s %q of %q comes behind %q of %q", tp, m.Value, m.Key, last.Value, last.Key)
	}
}

// add takes in the next event of its topic-partition.
func (j *judge) add(e *event) {
	if was, ok := j.stamps[e.stamp]; ok && was != e.id {
		j.Add("one stamp for two events", "%s, and %s", e, was)
	}
	j.stamps[e.stamp] = e.id
	_, again := j.ids[e.id]
	if again {
		j.repeats++
		if j.once {
			j.Add("stored twice", "%s", e)
		}
	} else {
		j.ids[e.id] = said{e.stream, e.key, e.now, len(j.ids)}
	}
	if e.kind == "Published" {
		if was, ok := j.rows[e.token]; ok && was != e.id {
			j.Add("two events of a row", "%s: %s and %s", e.token, was, e.id)
		}
		j.rows[e.token] = e.id
		return
	}
	s := j.streams[e.stream]
	if s == nil {
		j.Add("unknown stream", "%s", e)
		return
	}
	c := s.entities[e.key]
	if c == nil {
		c = &chain{last: make(map[string]*event)}
		s.entities[e.key] = c
	}
	c.last[e.tp] = e
	if !again {
		c.fresh = append(c.fresh, e)
	}
}

// fold returns the states of the entities of a stream that live by the bus: within a
// topic-partition the later message holds, across them the one with the higher stamp.
func (j *judge) fold(stream string) map[string]string {
	states := make(map[string]string)
	for key, c := range j.streams[stream].entities {
		if e := c.newest(); e.now == live {
			states[key] = e.state
		}
	}
	return states
}

func (c *chain) newest() (newest *event) {
	for _, e := range c.last {
		if newest == nil || newest.stamp.less(e.stamp) {
			newest = e
		}
	}
	return newest
}

// isLate reports whether a message came when a process had begun that is younger than its writer.
// An epoch is about the time at which its process began to publish, in ms.
func (j *judge) isLate(e *event) bool {
	return slices.ContainsFunc(j.starts, func(start time.Time) bool {
		return start.After(time.UnixMilli(int64(e.stamp.epoch))) && e.at.After(start)
	})
}

// check judges the events that came since the last call, once all that was committed has arrived:
// each one follows on the one before it, says something new, and the versions of the entity came in
// that order.
func (j *judge) check() {
	for stream, s := range j.streams {
		for _, c := range s.entities {
			if len(c.fresh) == 0 {
				continue
			}
			slices.SortStableFunc(c.fresh, func(a, b *event) int {
				return cmp.Or(cmp.Compare(a.stamp.epoch, b.stamp.epoch), cmp.Compare(a.stamp.seq, b.stamp.seq))
			})
			late := slices.ContainsFunc(c.fresh, j.isLate)
			if late {
				// The younger process could not know of it: what it published before it met it
				// follows on the event before. What is true in the end the fold shows.
				j.late++
			}
			for _, e := range c.fresh {
				if !late {
					j.follows(stream, s, c, e)
				}
				c.tip = *e
			}
			c.fresh = c.fresh[:0]
		}
	}
}

// follows judges an event by the one before it, and by the record.
func (j *judge) follows(stream string, s *folded, c *chain, e *event) {
	tip := &c.tip
	living := tip.id != "" && tip.now == live
	forgotten, again := stream == j.compacted && j.forgets && tip.now != live && tip.stamp.epoch < e.stamp.epoch, false
	if was := j.ids[e.link]; forgotten && was.stream == stream && was.key == e.key && was.at <= j.ids[tip.id].at {
		// Nothing on the bus says that the entity is gone: the event of a younger process follows
		// on what its checkpoint knew, and may say that once more.
		tip, living = &event{id: e.link, now: was.now}, was.now == live
		again = !living
	}
	switch {
	case e.now == filtered && tip.id == "":
		j.Add("never there", "%s: %s", stream, e)
	case e.link != tip.id && (!forgotten || e.link != ""):
		j.Add("link", "%s: %s comes behind %s", stream, e, tip)
	case (e.kind == "Modified") != (living && e.now == live) || e.now == absent && !living && !again:
		j.Add("operation", "%s: %s comes behind %s", stream, e, tip)
	case living && e.now == live && e.state == tip.state:
		j.Add("nothing new", "%s: %s comes behind %s", stream, e, tip)
	}
	if !s.record.pass(e.key, func(v version) bool { return v == version{e.now, e.state} }) {
		j.Add("order", "%s: %s comes behind %s, and the entity was from then on %v", stream, e, tip, s.record.of(e.key))
	}
}

// compareRows calls fault for each row of the record that what arrived does not fit.
func (j *judge) compareRows(rows []workload.Row, fault func(kind, format string, args ...any)) {
	for _, row := range rows {
		committed := row.Outcome == workload.Committed
		if _, there := j.rows[row.Token]; there != committed {
			fault(map[bool]string{true: "lost row", false: "row that was rolled back"}[committed], "%s", row.Token)
		}
	}
}

// compare notes where the fold of a stream differs from states, which are said to be what.
func (j *judge) compare(stream, what string, states map[string]string) {
	have := j.fold(stream)
	keys := slices.Collect(maps.Keys(have))
	for key := range states {
		if _, ok := have[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		is, on := have[key]
		want, there := states[key]
		if on == there && is == want {
			continue
		}
		var last *event
		if c := j.streams[stream].entities[key]; c != nil {
			last = c.newest()
		}
		j.Add("false by "+what, "%s: %q is %q (%v), and the last message is %v", stream, key, want, there, last)
	}
}
