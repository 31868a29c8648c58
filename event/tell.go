package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Told is the content of an event, as far as it tells the state of its entity.
type Told struct {
	// ID is its meta.id, Time its meta.time.
	ID   [16]byte
	Time time.Time
	// Op is Deleted, Added where the entity is there, or Published. Added and Modified events are
	// not told apart: they may share a type.
	Op Op
	// Absent says that the event is a deleted one of a row that is gone.
	Absent bool
	// Entity is as in Event.Entity. Row is the id of the row.
	Entity []byte
	Row    uint64
	// Predecessor is the event that it follows, zero if there is none.
	Predecessor [16]byte
	// State is the digest. Exact says that it is known, because it makes the event's meta.id.
	State [16]byte
	Exact bool
}

// Errors of Tell.
var (
	errNoEvent = errors.New("it is no event of this shard")
	errNoKey   = errors.New("it does not tell the entity")
)

// document is an event as it was read.
type document struct {
	Meta struct {
		ID   string
		Type string
		Time int64
	}
	Data  map[string]json.RawMessage
	Links []struct{ Target string }
}

// Tell parses an event that Append or AppendAbsent of an encoder of this shard made, also if
// columns other than those of the key have changed since. Its values share no memory with body. It
// fails for other documents, and if the event does not show the key: a key column of JSON or bits,
// or a bad key value that was published as null.
func (e *Encoder) Tell(body []byte) (Told, error) {
	var d document
	if e.plan == nil {
		return Told{}, errUnbound
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return Told{}, fmt.Errorf("read an event of table %s: %w", e.options.Table, err)
	}
	t, err := e.tell(&d)
	if err != nil {
		return Told{}, fmt.Errorf("read the event %.40q of table %s: %w", d.Meta.ID, e.options.Table, err)
	}
	return t, nil
}

func (e *Encoder) tell(d *document) (t Told, err error) {
	var row struct {
		Source, Table string
		ID            uint64
	}
	if t.ID, err = ParseID(d.Meta.ID); err != nil {
		return t, err
	}
	if err := json.Unmarshal(d.Data["row"], &row); err != nil || row.Source != e.options.Source || row.Table != e.options.Table || t.ID == [16]byte{} {
		return t, errNoEvent
	}
	t.Row, t.Time = row.ID, time.UnixMilli(d.Meta.Time).UTC()
	reason, isDeleted := d.Data["reason"]
	switch {
	case isDeleted:
		t.Op, t.Absent = Deleted, string(reason) == `"`+absentInSnapshot+`"`
	case e.options.Kind == Release:
		t.Op = Published
	default:
		t.Op = Added
	}
	if len(d.Links) > 0 {
		if t.Predecessor, err = ParseID(d.Links[0].Target); err != nil {
			return t, err
		}
	}
	ops := e.opsNamed(d.Meta.Type, isDeleted)
	if len(ops) == 0 {
		return t, errNoEvent
	}
	values, sure, err := e.valuesOf(d, row.ID)
	if err != nil {
		return t, err
	}
	t.Entity = e.appendEntity(nil, values)
	if t.prove(e, values, ops); !t.Exact && !sure {
		return t, errNoKey
	}
	return t, nil
}

// opsNamed returns the operations whose events have a type, as far as they go with the reason that
// only deleted events have.
func (e *Encoder) opsNamed(name string, reason bool) (named []Op) {
	for _, op := range opsOf(e.options.Kind) {
		if e.options.typeOf(op).name == name && (op == Deleted) == reason {
			named = append(named, op)
		}
	}
	return named
}

// valuesOf returns the values of a row as far as the members tell them; sure says that those of the
// key are what they were.
func (e *Encoder) valuesOf(d *document, id uint64) (values [][]byte, sure bool, err error) {
	columns, sure := e.plan.columns, true
	values = make([][]byte, len(columns.List))
	told := make([]bool, len(columns.List))
	for _, m := range e.plan.members {
		raw, ok := d.Data[m.text]
		if !ok {
			continue
		}
		value, exact, fits := Invert(m.column, e.options.Zone, raw)
		values[m.index], told[m.index] = bytes.Clone(value), true
		if slices.Contains(columns.Key, m.index) && (!exact || !fits || value == nil) {
			sure = false
		}
	}
	values[columns.ID], told[columns.ID] = strconv.AppendUint(nil, id, 10), true
	for _, key := range columns.Key {
		if !told[key] {
			return nil, false, errNoKey
		}
	}
	return values, sure, nil
}

// prove finds out whether the values make the event, and with it the state.
func (t *Told) prove(e *Encoder, values [][]byte, ops []Op) {
	f := fact{entity: t.Entity, row: t.Row, predecessor: FormatID(t.Predecessor)}
	if !t.Absent {
		f.state = e.state.of(e.plan, values)
	}
	for _, f.op = range ops {
		// The event of a row that says that it is deleted tells no state: it proves nothing.
		if e.identity.id(f) == t.ID {
			t.State, t.Exact = f.state, true
		}
	}
}

// Says reports whether the event told, of an entity that is there, says that the entity has this
// digest, even if its members do not show all of it. It uses ID, Entity, Row and Predecessor of
// told.
func (e *Encoder) Says(told Told, state [16]byte) bool {
	f := fact{entity: told.Entity, row: told.Row, state: state, predecessor: FormatID(told.Predecessor)}
	for _, f.op = range [...]Op{Added, Modified} {
		if e.identity.id(f) == told.ID {
			return true
		}
	}
	return false
}
