package event

import "bridge/source"

// Sight is what a view needs to know of a row to tell whether it is news.
type Sight struct {
	// Entity is that of the row's event, in memory of the encoder: valid until the next call of any of its methods.
	Entity []byte
	// State is the state hash of the row's event.
	State [16]byte
	// Deleted says that the row's event is a deleted one.
	Deleted bool
}

// Sight looks at a row without rendering it: what the event of the row would have as Entity, State and Op, at the price of the
// state hash alone. The row must have the shape of the last Bind.
func (e *Encoder) Sight(row source.Record) (Sight, error) {
	if err := e.checkShape(row); err != nil {
		return Sight{}, err
	}
	const keepBytes = 1 << 20
	if cap(e.entity) > keepBytes {
		e.entity = nil
	}
	e.entity = e.appendEntity(e.entity[:0], row.Values)
	return Sight{Entity: e.entity, State: e.state.of(e.plan, row.Values), Deleted: e.isDeleted(row.Values)}, nil
}
