package event

import (
	"fmt"
	"time"
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
	// key is that of the event.
	key []byte
}

// encode appends the event of a finding, whose row has the shape of the plan, to buf.
func (e *Encoder) encode(buf []byte, f finding) ([]byte, Event, error) {
	ev := Event{Type: f.kind.name, Version: e.options.Version, Schema: e.plan.schema, Op: f.kind.op, Time: f.time, FromClock: f.time.IsZero(), Digest: f.state}
	if f.state != ([16]byte{}) {
		ev.Born = e.plan.born(f.row.Values)
	}
	if err := check(f.row, ev); err != nil {
		return buf, Event{}, fmt.Errorf("encode row %d of table %s: %w", f.row.ID, e.options.Table, err)
	}
	start := len(buf)
	out := e.appendKey(buf, f.row.Values)
	key := len(out)
	op := f.kind.op
	if op == Deleted {
		ev.Reason = f.reason
		if f.reason == filtered {
			// The state of a row does not tell it from a tombstone.
			op = filtered
		}
	}
	id := e.identity.id(fact{columns: e.plan.columns.Key, values: f.row.Values, row: f.row.ID, op: op, state: f.state, predecessor: f.row.Predecessor})
	f.key = out[start:key:key]
	out, w, err := e.write(out, &f, id)
	if err != nil {
		return out[:start], Event{}, err
	}
	ev.ID, ev.UUID, ev.BadValues = w.id, id, w.bad
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

// appendMembers appends the members of data that are columns, each with a comma after it, and adds
// the values that became null to bad.
func (e *Encoder) appendMembers(dst []byte, bad *int, op Op, row Row) ([]byte, error) {
	members := e.plan.members
	if op == Deleted {
		members = e.plan.keys
	}
	for i := range members {
		m := &members[i]
		dst = append(dst, m.name...)
		var fault string
		dst, fault = e.values.append(dst, &m.column, row.Values[m.index])
		if fault != "" {
			if e.options.BadValue == StopOnBad {
				return dst, &BadValueError{Table: e.options.Table, Row: row.ID, Column: m.column.Name, Fault: fault}
			}
			*bad++
		}
		dst = append(dst, ',')
	}
	return dst, nil
}
