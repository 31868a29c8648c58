package event

import "bridge/source"

// Digest is what a view compares to decide whether a row is news.
type Digest struct {
	// Entity is that of the row's event, in memory of the encoder: valid until the next call of any
	// of its methods.
	Entity []byte
	// Sum is the digest of the row's event.
	Sum [16]byte
	// Deleted says that the row's event is a deleted one.
	Deleted bool
}

// Digest returns the Entity, Digest and Op that the event of a row would have, without rendering
// the event. The row must have the shape of the last Bind.
func (e *Encoder) Digest(row source.Row) (Digest, error) {
	if err := e.checkShape(row); err != nil {
		return Digest{}, err
	}
	const keepBytes = 1 << 20
	if cap(e.entity) > keepBytes {
		e.entity = nil
	}
	e.entity = e.appendEntity(e.entity[:0], row.Values)
	return Digest{Entity: e.entity, Sum: e.state.of(e.plan, row.Values), Deleted: e.isDeleted(row.Values)}, nil
}
