package event

import (
	"fmt"
	"strconv"
	"time"

	"bridge/internal/failpoint"
)

// finding is what an event is made of: a row, and what it says.
type finding struct {
	row  Row
	kind *eventType
	// time is that of the row, zero where it has none.
	time  time.Time
	state [16]byte
	// reason is data.reason of a deleted event.
	reason string
}

// encode appends the event of a finding, whose row has the shape of the plan, to buf.
func (e *Encoder) encode(buf []byte, f finding) ([]byte, Event, error) {
	ev := Event{Type: f.kind.name, Version: e.options.Version, Schema: e.plan.schema, Op: f.kind.op, Time: f.time, FromClock: f.time.IsZero(), Digest: f.state}
	if err := check(f.row, ev); err != nil {
		return buf, Event{}, fmt.Errorf("encode row %d of table %s: %w", f.row.ID, e.options.Table, err)
	}
	start := len(buf)
	out := e.appendKey(buf, f.row.Values)
	key := len(out)
	id := e.identity.id(fact{columns: e.plan.columns.Key, values: f.row.Values, row: f.row.ID, op: f.kind.op, state: f.state, predecessor: f.row.Predecessor})
	if failpoint.Mutant(failpoint.OtherIDAgain) {
		id[14], id[15] = byte(time.Now().Unix()>>8), byte(time.Now().Unix())
	}
	out, err := e.appendBody(out, &ev, f, id)
	if err != nil {
		return out[:start], Event{}, err
	}
	ev.Key = out[start:key:key]
	ev.Body = out[key:len(out):len(out)]
	return out, ev, nil
}

// check reports what row lacks for its event.
func check(row Row, ev Event) error {
	if ev.FromClock && row.Read.IsZero() {
		return errNoTime
	}
	if _, err := ParseID(row.Predecessor); err != nil {
		return errPredecessor
	}
	return nil
}

// appendBody appends the JSON document and completes ev.
func (e *Encoder) appendBody(dst []byte, ev *Event, f finding, id [16]byte) ([]byte, error) {
	dst = append(dst, `{"meta":{"id":"`...)
	at := len(dst)
	dst = appendUUID(dst, id)
	ev.ID, ev.UUID = e.identity.texts.Of(dst[at:]), id
	dst = append(dst, f.kind.head...)
	moment := ev.Time
	if ev.FromClock {
		moment = f.row.Read
	}
	dst = strconv.AppendInt(dst, moment.UnixMilli(), 10)
	dst = append(dst, e.origin...)

	members := e.plan.members
	if f.kind.op == Deleted {
		members = e.plan.keys
	}
	dst, err := e.appendMembers(dst, ev, members, f.row)
	if err != nil {
		return dst, err
	}
	if f.kind.op == Deleted {
		dst = append(append(append(dst, `"reason":"`...), f.reason...), `",`...)
	}
	dst = append(dst, e.row...)
	dst = strconv.AppendUint(dst, f.row.ID, 10)
	dst = append(dst, `}},"links":[`...)
	if f.row.Predecessor != "" {
		dst = append(dst, `{"type":"PREVIOUS_VERSION","target":"`...)
		dst = append(dst, f.row.Predecessor...)
		dst = append(dst, `"}`...)
	}
	return append(dst, `]}`...), nil
}

// appendMembers appends the members of data that are columns, each with a comma after it.
func (e *Encoder) appendMembers(dst []byte, ev *Event, members []member, row Row) ([]byte, error) {
	for i := range members {
		m := &members[i]
		dst = append(dst, m.name...)
		var fault string
		dst, fault = e.values.append(dst, &m.column, row.Values[m.index])
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
