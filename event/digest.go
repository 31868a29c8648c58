package event

import "bridge/source"

// Digest is what a view compares to decide whether a row is news.
type Digest struct {
	// Key is that of the row's event, in memory of the encoder: valid until the next call of any of
	// its methods.
	Key []byte
	// Sum is the digest of the row's event.
	Sum [16]byte
	// Deleted says that the row's event is a deleted one. It is news of an entity alone that was
	// published. Silent says that the row does not match the condition of the stream.
	// Keyless says that the row has NULL in a column that makes it the single row of its key: it is
	// no entity, and no event.
	Deleted, Silent, Keyless bool
}

// StopsOnBad reports whether values that an event cannot hold stop the stream.
func (e *Encoder) StopsOnBad() bool { return e.options.BadValue == StopOnBad }

// Digest returns the Key, Digest and Op that the event of a row would have, without rendering
// the event. The row must have the shape of the last Bind.
func (e *Encoder) Digest(row source.Row) (Digest, error) {
	if err := e.checkShape(row); err != nil {
		return Digest{}, err
	}
	const keepBytes = 1 << 20
	if cap(e.key) > keepBytes {
		e.key = nil
	}
	e.key = e.appendKey(e.key[:0], row.Values)
	d := Digest{Key: e.key, Sum: e.state.of(e.plan, row.Values), Deleted: e.isDeleted(row.Values)}
	if row.Filtered && e.options.Kind == Capability {
		d.Deleted, d.Silent = true, true
	}
	if e.options.Kind == Capability && e.plan.columns.Keyless(row.Values) >= 0 {
		d.Deleted, d.Silent, d.Keyless = true, true, true
	}
	return d, nil
}
