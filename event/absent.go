package event

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"bridge/source"
)

// errNoEntities is the error of an absent fact: a log may lose its old rows.
var errNoEntities = errors.New("a release stream has no deleted events")

// Absent is an entity whose row is gone.
type Absent struct {
	// Key is the Key of its last event.
	Key []byte
	// ID is the id of its last known row.
	ID uint64
	// Read is the database's clock of the read that did not find the row. It becomes meta.time.
	Read time.Time
	// Predecessor is the meta.id of the entity's last event, empty if it is not known. It tells two
	// disappearances of one row apart.
	Predecessor string
}

// AppendAbsent appends the deleted event of an entity whose row is gone, like Append for a row. Its
// Digest is zero and FromClock is true. The table must have as many key columns as when the entity
// was last seen.
func (e *Encoder) AppendAbsent(buf []byte, a Absent) ([]byte, Event, error) {
	if e.options.Kind != Capability {
		return buf, Event{}, errNoEntities
	}
	keys, err := e.KeyValues(a.Key, e.keys[:0])
	if err != nil {
		return buf, Event{}, fmt.Errorf("encode the absent row %d of table %s: %w", a.ID, e.options.Table, err)
	}
	// A deleted event has no other columns.
	n := len(e.plan.columns.List)
	e.keys, e.absent = keys, slices.Grow(e.absent[:0], n)[:n]
	clear(e.absent)
	for i, column := range e.plan.columns.Key {
		e.absent[column] = keys[i]
	}
	return e.encode(buf, finding{
		row:    Row{Row: source.Row{ID: a.ID, Values: e.absent}, Read: a.Read, Predecessor: a.Predecessor},
		kind:   &e.dead,
		reason: absentInSnapshot,
	})
}
