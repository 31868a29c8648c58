package event

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"bridge/source"
)

// Errors of a caller that does not keep to the rules of Append.
var (
	errUnbound     = errors.New("encoder is not bound to columns: call Bind first")
	errNoTime      = errors.New("it has no time of its own and no time of its read")
	errPredecessor = errors.New("its predecessor is not a meta.id")
)

// Encoder encodes the rows of one shard as events. It serves one goroutine at a time.
type Encoder struct {
	options Options
	plan    *plan
	// live is the type of a row that is there, dead that of one whose DELETED column says that it is not.
	live, dead eventType
	// origin is the JSON between meta.time and the members of data, row the one between them and the row's id.
	origin, row []byte

	identity *identity
	state    *stateHash
	values   *values
}

// NewEncoder returns an encoder of events under o; call Bind before Append. The error names every fault of o at once,
// each with the setting and what would be right.
func NewEncoder(o Options) (*Encoder, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	e := &Encoder{
		options:  o,
		origin:   o.appendOrigin(nil),
		row:      o.appendRow(nil),
		identity: newIdentity(o.Stream, o.Shard),
		state:    newStateHash(),
		values:   &values{zone: o.Zone},
	}
	if o.Kind == Release {
		e.live = o.typeOf(Published)
		e.dead = e.live
	} else {
		e.live = o.typeOf(Added)
		e.dead = o.typeOf(Deleted)
	}
	return e, nil
}

// Type returns the event type of an operation, empty for one that the kind of stream does not have.
func (e *Encoder) Type(op Op) string {
	if !slices.Contains(opsOf(e.options.Kind), op) {
		return ""
	}
	return e.options.typeOf(op).name
}

// Bind prepares the encoder for rows of this shape. Call it before the first Append and whenever the shape changes; for
// the shape it is bound to already it does nothing. The error names every fault at once; until a Bind succeeds, Append
// fails.
func (e *Encoder) Bind(columns *source.Columns) error {
	if e.plan != nil && e.plan.columns == columns {
		return nil
	}
	plan, err := e.options.newPlan(columns)
	if err != nil {
		e.plan = nil
		return fmt.Errorf("map the columns of table %s: %w", e.options.Table, err)
	}
	e.plan = plan
	return nil
}

// Append appends the event of row to buf and returns the longer buffer and the event, whose byte slices lie in it; they
// stay valid when buf grows further, until it is overwritten. The row must have the shape of the last Bind; its
// values are not kept.
//
// On an error, a *BadValueError under StopOnBad, buf comes back as long as it was.
func (e *Encoder) Append(buf []byte, row Row) ([]byte, Event, error) {
	if e.plan == nil {
		return buf, Event{}, errUnbound
	}
	if got, want := len(row.Values), len(e.plan.columns.List); got != want {
		return buf, Event{}, fmt.Errorf("row %d of table %s has %d values for %d columns", row.ID, e.options.Table, got, want)
	}
	kind := e.typeOf(row.Values)
	ev := Event{Type: kind.name, Version: Version, Op: kind.op, Time: e.time(row.Values)}
	ev.FromClock = ev.Time.IsZero()
	if err := check(row, ev); err != nil {
		return buf, Event{}, fmt.Errorf("encode row %d of table %s: %w", row.ID, e.options.Table, err)
	}
	ev.State = e.state.of(e.plan, row.Values)

	start := len(buf)
	out := e.appendEntity(buf, row.Values)
	entity := len(out)
	out = e.appendKey(out, row.Values)
	key := len(out)
	id := e.identity.id(fact{entity: out[start:entity], row: row.ID, op: kind.op, state: ev.State, predecessor: row.Predecessor})
	out, err := e.appendBody(out, &ev, kind, id, row)
	if err != nil {
		return out[:start], Event{}, err
	}
	ev.Entity = out[start:entity:entity]
	ev.Key = out[entity:key:key]
	ev.Body = out[key:len(out):len(out)]
	return out, ev, nil
}

// check reports what row lacks for its event.
func check(row Row, ev Event) error {
	switch {
	case ev.FromClock && row.Read.IsZero():
		return errNoTime
	case row.Predecessor != "" && !isUUID(row.Predecessor):
		return errPredecessor
	}
	return nil
}

// typeOf returns the type of the event of a row. Whether the row changed what was known is for the view to say.
func (e *Encoder) typeOf(values [][]byte) *eventType {
	if i := e.plan.columns.Deleted; i >= 0 && isDeleted(e.plan.columns.List[i], values[i]) {
		return &e.dead
	}
	return &e.live
}

// time returns MODIFIED, else CREATED, else the zero time. The first moment of the year 1, which some programs write for
// "never", is no time either.
func (e *Encoder) time(values [][]byte) time.Time {
	for _, i := range [...]int{e.plan.columns.Modified, e.plan.columns.Created} {
		if i < 0 {
			continue
		}
		if t, ok := e.plan.columns.List[i].Time(values[i], e.options.Zone); ok {
			return t
		}
	}
	return time.Time{}
}

// appendBody appends the JSON document and completes ev.
func (e *Encoder) appendBody(dst []byte, ev *Event, kind *eventType, id [16]byte, row Row) ([]byte, error) {
	dst = append(dst, `{"meta":{"id":"`...)
	at := len(dst)
	dst = appendUUID(dst, id)
	ev.ID = string(dst[at:])
	dst = append(dst, kind.head...)
	moment := ev.Time
	if ev.FromClock {
		moment = row.Read
	}
	dst = strconv.AppendInt(dst, moment.UnixMilli(), 10)
	dst = append(dst, e.origin...)

	members := e.plan.members
	if kind.op == Deleted {
		members = e.plan.keys
	}
	dst, err := e.appendMembers(dst, ev, members, row)
	if err != nil {
		return dst, err
	}
	if kind.op == Deleted {
		dst = append(dst, `"reason":"`+tombstone+`",`...)
	}
	dst = append(dst, e.row...)
	dst = strconv.AppendUint(dst, row.ID, 10)
	dst = append(dst, `}},"links":[`...)
	if row.Predecessor != "" {
		dst = append(dst, `{"type":"PREVIOUS_VERSION","target":"`...)
		dst = append(dst, row.Predecessor...)
		dst = append(dst, `"}`...)
	}
	return append(dst, `]}`...), nil
}

// appendMembers appends the members of data that are columns, each with a comma behind it.
func (e *Encoder) appendMembers(dst []byte, ev *Event, members []member, row Row) ([]byte, error) {
	for i := range members {
		m := &members[i]
		dst = append(dst, m.name...)
		var fault string
		dst, fault = e.values.append(dst, m.column, row.Values[m.index])
		if fault != "" {
			if e.options.BadValue == StopOnBad {
				return dst, &BadValueError{Table: e.options.Table, Row: row.ID, Column: m.column.Name, Fault: fault}
			}
			ev.BadValues++
		}
		dst = append(dst, ',')
	}
	return dst, nil
}
