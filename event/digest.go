package event

import "bridge/source"

// Digest is what a view compares to decide whether a row is news.
type Digest struct {
	// Key is that of the row's event, in memory of the encoder: valid until the next call of any of
	// its methods.
	Key []byte
	// Sum is the digest of the row's event.
	Sum [16]byte
	// Deleted says that the row's event is a deleted one. With Silent it is news of an entity alone
	// that is there.
	Deleted, Silent bool
}

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
	if d.Deleted && e.silent != nil {
		d.Silent = e.silent()
	}
	if row.Filtered && e.options.Kind == Capability {
		d.Deleted, d.Silent = true, true
	}
	return d, nil
}

// Silence makes rows that say that they are deleted Silent in their Digest while when reports true:
// where a bus forgets deleted entities, one that it does not have may have been published. Call it
// before the first Digest.
func (e *Encoder) Silence(when func() bool) { e.silent = when }
