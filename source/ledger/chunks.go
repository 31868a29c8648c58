package ledger

import (
	"maps"
	"slices"
)

// Chunk is one part of a saved ledger, of a few KiB at most. A store keeps each under its own key,
// so that saving a large ledger writes only what changed. Together they are all of the ledger; a
// store must save the changes of one Changed, and the position that goes with them, in one
// transaction.
type Chunk struct {
	// Key identifies the part. 0 is the head, which every saved ledger has.
	Key uint64
	// Bytes are the part's new form, with a checksum; nil says that the part is gone. They must not
	// be modified.
	Bytes []byte
}

// Changed returns the parts that differ from those that the last Changed returned, or that the
// ledger was restored from, in the order of their keys. Its cost depends on the changes alone.
func (l *Ledger) Changed() []Chunk {
	leaves := &l.state.missing.leaves
	leaves.seal()
	l.state.unsaved = false
	leaves.handOut()
	chunks := make([]Chunk, 0, 1+len(leaves.changed))
	chunks = append(chunks, Chunk{Bytes: appendHead(nil, &l.state, &l.clock)})
	for _, key := range slices.Sorted(maps.Keys(leaves.changed)) {
		chunk := Chunk{Key: key}
		if i := leaves.index(key); i >= 0 && leaves.list[i].key == key {
			chunk.Bytes = leaves.form(i)
		}
		chunks = append(chunks, chunk)
	}
	clear(leaves.changed)
	return chunks
}

// All returns the parts of the whole ledger, for a store that has none of it, as Changed does.
func (l *Ledger) All() []Chunk {
	leaves := &l.state.missing.leaves
	leaves.seal()
	for i := range leaves.list {
		leaves.changed[leaves.list[i].key] = struct{}{}
	}
	return slices.DeleteFunc(l.Changed(), func(c Chunk) bool { return c.Bytes == nil })
}

// Calls returns how often Changed was called.
func (l *Ledger) Calls() uint64 { return l.state.missing.leaves.store.calls }

// Saved notes that the store has applied what the first n calls of Changed returned and can give it
// back, so that it need not stay in memory.
func (l *Ledger) Saved(n uint64) { l.state.missing.leaves.saveDone(n, l.opts.MaxBytes) }

// Err returns why a part of the ledger could not be loaded, nil while there is no such fault. After
// one the ledger must not be used, nor what it said since be saved.
func (l *Ledger) Err() error { return l.state.missing.leaves.store.err }
