package world

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.org/bridge/client/bus"
	"example.org/bridge/event"
	"example.org/bridge/tests/workload"
)

// Expect says what a judge demands beside what always holds, and what it takes as it has to be.
type Expect struct {
	// Steady says that the program was not restarted: a row below a higher id of its
	// topic-partition must be marked as late.
	Steady bool
	// Ascending demands ids in strictly ascending order in each topic-partition.
	Ascending bool
	// Reconciled says that rows may have been found by reconcile.
	Reconciled bool
	// Lossy says that the bus has lost messages: events may follow on those, and say once more what
	// the bus still has.
	Lossy bool
	// Frozen says that a process stood still and went on where the bus does not fence it: what it
	// had in flight may come behind its successor's messages. Such messages say nothing of order,
	// and of an entity that has one its events are judged by what they say, and by the end.
	Frozen bool
	// Sampled validates the schema of one event in 16, chosen by its id: that costs as much as all
	// else.
	Sampled bool
	// Altered says that columns of the tables came or went: events of before do not have them.
	Altered bool
	// Hops says that entities go from table to table, whose events may be in several
	// topic-partitions: those of a section are judged in the order of their stamps. A tombstone may
	// be stated again for another row.
	Hops bool
	// Forgets, where it is not 0, is after what time the bus forgets deleted entities: their next
	// event by a later run may have no link, or one to what the program still knew, and so be one
	// that the bus had before.
	Forgets time.Duration
}

// Judge compares what a consumer received with what the writers recorded. Hand it all messages with
// Message, then call End.
type Judge struct {
	Verdict
	// Starts are when processes of the program began, where the bus does not fence them: what an
	// older one has in flight may be stored behind that.
	Starts []time.Time
	// domain and stream are those of the messages to judge, empty for all.
	domain, stream string
	expect         Expect
	schemas        map[event.Op]*jsonschema.Schema
	// first is what is compared of the first message with each event id.
	first  map[digest]copied
	stamps stamps
	// epochs are the highest of each table on each topic-partition.
	epochs map[[2]string]uint64
	// fresh are the events of a section of entities that hop.
	fresh  []*Event
	record record
}

type record interface {
	// message sees every message, repeats too.
	message(*Event)
	// event judges an event by the record, again one that is published again.
	event(*Event)
	again(*Event)
	// end judges what is missing.
	end()
	// forget drops what is judged. What is kept still tells what comes again.
	forget()
}

// NewRowJudge returns a judge of the events of a table of a Workload.
func NewRowJudge(t testing.TB, rows []workload.Row, expect Expect) *Judge {
	j := newJudge(t, expect)
	r := &rowRecord{
		Judge: j, rows: make(map[string]*workload.Row, len(rows)), published: make(map[digest]struct{}, len(rows)),
		highest: make(map[string]uint64), passed: make(map[string]uint64), newest: make(map[string]int),
	}
	for i := range rows {
		r.rows[rows[i].Token] = &rows[i]
	}
	j.record = r
	return j
}

// NewEntityJudge returns a judge of the events of a table of Capabilities: each sequence of events
// about an entity must be one in which its states can have been read.
func NewEntityJudge(t testing.TB, histories []workload.History, expect Expect) *Judge {
	j := newJudge(t, expect)
	j.record = &entityRecord{
		Judge: j, histories: historiesByEntity(histories),
		chains: make(map[EntityKey]*chain), contents: make(map[uint64]digest), fold: make(lasts),
	}
	return j
}

func newJudge(t testing.TB, expect Expect) *Judge {
	return &Judge{Verdict: newVerdict(), expect: expect, schemas: general(t), first: make(map[digest]copied), stamps: make(stamps), epochs: make(map[[2]string]uint64)}
}

// ShareStamps says that judges judge streams of one program, which gives each stamp once.
func ShareStamps(judges ...*Judge) {
	for _, j := range judges {
		j.stamps = judges[0].stamps
	}
}

// Messages judges many messages and the end, and returns what was found.
func (j *Judge) Messages(messages []Message) *Verdict {
	for _, m := range messages {
		j.Message(m)
	}
	return j.End()
}

// Message judges the next message.
func (j *Judge) Message(m Message) {
	if m.Headers[bus.HeaderList] != "" || j.domain != "" && m.Headers[bus.HeaderDomain] != j.domain || j.stream != "" && m.Headers[bus.HeaderStream] != j.stream {
		return
	}
	e, err := DecodeEvent(m)
	if err != nil {
		j.Add("no event", "%v: %.300s", err, m.Value)
		return
	}
	j.stamp(&e)
	j.record.message(&e)
	one := copiedOf(&e)
	if was, ok := j.first[digestOf(e.ID)]; !ok {
		j.first[digestOf(e.ID)] = one
		j.Published++
		j.Ops[string(e.Op)+strings.ToLower(e.Reason)]++
		j.Origins[e.Origin()]++
		j.valid(&e)
	} else {
		j.repeat(&e, was)
		if !was.repeats(one) {
			j.Add("one id for two events", "%s: %.300s", &e, m.Value)
		}
		return
	}
	if e.behind {
		j.Behind++
	}
	if j.expect.Hops {
		j.fresh = append(j.fresh, &e)
	} else {
		j.record.event(&e)
	}
}

func (j *Judge) ordered() {
	slices.SortStableFunc(j.fresh, func(a, b *Event) int {
		return cmp.Or(cmp.Compare(a.stated.Epoch, b.stated.Epoch), cmp.Compare(a.stated.Seq, b.stated.Seq))
	})
	for _, e := range j.fresh {
		j.record.event(e)
	}
	j.fresh = nil
}

// End judges what is missing and returns what was found.
func (j *Judge) End() *Verdict {
	j.ordered()
	j.record.end()
	for _, delays := range j.Delays {
		slices.Sort(delays)
	}
	return &j.Verdict
}

// EndSection judges what is missing although all that was committed is published, and forgets what
// is judged: as before, what comes again is found.
func (j *Judge) EndSection() {
	j.ordered()
	j.record.end()
	j.record.forget()
	clear(j.Delays)
}

func (j *Judge) valid(e *Event) {
	if !j.expect.Sampled || digestOf(e.ID)%16 == 0 {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.Value))
		if schema := j.schemas[e.Op]; schema == nil || err != nil {
			j.Add("type", "%s: %v", e.Type, err)
		} else if err := schema.Validate(doc); err != nil {
			j.Add("schema", "%s: %v", e, err)
		}
	}
	row := strconv.FormatUint(e.RowID, 10)
	for name, want := range map[string]string{
		"eiffel-id": e.ID, "eiffel-type": e.Type, "bridge-row-id": row,
	} {
		// A document says its type itself.
		if got, there := e.Headers[name]; got != want && (there || name != "eiffel-type") {
			j.Add("header", "%s: %s is %q, want %q", e, name, got, want)
		}
	}
	if got, there := e.Headers["content-type"]; there && got != "application/json" && got != "application/cloudevents+json" {
		j.Add("header", "%s: content-type is %q", e, got)
	}
	if id, ok := e.Data["id"]; ok && string(id) != row {
		j.Add("content", "%s has the id %s", e, id)
	}
}

// stamp judges the headers that recovery reads. Each message has a stamp of its own; of one that is
// sent again by the same run there may be two.
func (j *Judge) stamp(e *Event) {
	s, err := bus.ParseState(e.Headers[bus.HeaderState])
	if err != nil {
		j.Add("stamp", "%s: %v", e, err)
		return
	}
	e.stated = s
	epoch := [2]string{e.Partition, e.Headers[bus.HeaderShard]}
	e.behind = j.expect.Frozen && s.Epoch < j.epochs[epoch] || slices.ContainsFunc(j.Starts, func(start time.Time) bool {
		// An epoch is about when its process began to publish, in ms.
		return start.After(time.UnixMilli(int64(s.Epoch))) && e.At.After(start)
	})
	j.epochs[epoch] = max(j.epochs[epoch], s.Epoch)
	if j.stamps.use(s.Epoch, s.Seq, e.ID) {
		j.Add("one stamp for two events", "another event and %s: %s", e, e.Headers[bus.HeaderState])
	}
	kind := bus.StateLive
	if e.Op == event.Deleted {
		kind = map[string]bus.StateKind{"TOMBSTONE": bus.StateTombstone, "FILTERED": bus.StateTombstone, "ABSENT_IN_SNAPSHOT": bus.StateAbsent, "STALE": bus.StateAbsent}[e.Reason]
	}
	if s.Kind != kind || s.Event != [16]byte{} || e.Headers[bus.HeaderDomain] != e.Domain {
		j.Add("stamp", "%s of %q: domain %q, %s", e, e.Domain, e.Headers[bus.HeaderDomain], e.Headers[bus.HeaderState])
	}
}

// On NATS the key is a part of the state.
func (j *Judge) key(e *Event, want string) {
	got := e.Key
	if got == "" {
		got = e.stated.Key
	}
	if got != want {
		j.Add("key", "%s has the key %q, want %q", e, got, want)
	}
}

// Event is an event as a consumer decodes it.
type Event struct {
	Message
	ID, Type, Domain string

	Op    event.Op
	Data  map[string]json.RawMessage
	Links []struct{ Type, Target string }
	// Row is the row's table and id, RowID the id alone.
	Row   string
	RowID uint64
	// Reason is the reason of a deleted event.
	Reason string
	// entity and state are those of a table of entities.
	entity EntityKey
	state  uint64
	// stated is what the headers say. behind says that a younger run has published before it, where
	// that may be.
	stated bus.State
	behind bool
	// forgotten says that the bus may have forgotten all of its entity before.
	forgotten bool
}

func DecodeEvent(m Message) (Event, error) {
	var read struct {
		Meta struct {
			ID, Type string
			Source   struct{ DomainID string }
		}
		Data  map[string]json.RawMessage
		Links []struct{ Type, Target string }
	}
	document, err := Document(m)
	if err == nil {
		err = json.Unmarshal(document, &read)
	}
	if err != nil {
		return Event{}, err
	}
	e := Event{Message: m, ID: read.Meta.ID, Type: read.Meta.Type, Domain: read.Meta.Source.DomainID, Op: OpOf(read.Meta.Type), Data: read.Data, Links: read.Links}
	var row struct{ ID uint64 }
	if err = json.Unmarshal(e.Data["row"], &row); err != nil {
		return Event{}, fmt.Errorf("row: %w", err)
	}
	e.Row, e.RowID = string(e.Data["row"]), row.ID
	if e.Op == event.Deleted {
		return e, json.Unmarshal(e.Data["reason"], &e.Reason)
	}
	return e, nil
}

func (e *Event) member(name string, into any) error {
	if len(e.Data[name]) == 0 {
		return nil
	}
	if err := json.Unmarshal(e.Data[name], into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Origin is how the program noticed the row.
func (e *Event) Origin() string { return e.Headers["bridge-origin"] }

func (e *Event) follows(id string) bool { return len(e.Links) == 1 && e.Links[0].Target == id }

func (e *Event) String() string {
	return fmt.Sprintf("%s %q %s%s row %d state s%d, %s", e.entity.App, e.entity.Name, e.Op, e.Reason, e.RowID, e.state, e.Origin())
}

// OpOf tells the operation by the type's ending.
func OpOf(kind string) event.Op {
	for ending, op := range map[string]event.Op{
		"AddedEvent": event.Added, "ModifiedEvent": event.Modified, "DeletedEvent": event.Deleted, "PublishedEvent": event.Published,
	} {
		if strings.HasSuffix(kind, ending) {
			return op
		}
	}
	return ""
}

// escapeKey returns a value of a key as messages have it: '+', '%' and what does not print are
// percent-encoded.
func escapeKey(value string) string {
	var b strings.Builder
	for _, r := range value {
		if r == '+' || r == '%' || r < ' ' || r == 0x7f {
			fmt.Fprintf(&b, "%%%02X", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
