package checkpoint

import (
	"bytes"
	"context"
	"maps"
	"slices"
)

// InDoubt is the digest of a live entity whose last published state is unknown. No row has this
// digest, so every row of the entity is published. It cannot be a meta.id, which is a UUID of
// version 5, and is a digest once in 2^128.
var InDoubt = [16]byte(bytes.Repeat([]byte{0xff}, 16))

// DropJournals saves a state as it was loaded, but without the journals: batches that were on their
// way at the last end. Of an event that has arrived, the view holds what it says. Of the others it
// is in doubt whether they are on the bus, hence what was published last of their entities:
// whatever is true of one is published again, be it a delete. Where nothing has changed since, that
// has the id that it had. An entity whose row lies above through keeps the one that it had:
// entities of rows above are about to be forgotten.
func DropJournals(ctx context.Context, s Store, key Key, before State, through uint64, arrived func(event [16]byte) bool) error {
	if len(before.Journals) == 0 {
		return nil
	}
	told := make(map[string][]Known)
	for _, j := range before.Journals {
		for _, change := range j.After.View {
			told[string(change.Entity)] = append(told[string(change.Entity)], change.Known)
		}
	}
	var entities [][]byte
	for _, entity := range slices.Sorted(maps.Keys(told)) {
		entities = append(entities, []byte(entity))
	}
	held, err := s.Lookup(ctx, key, entities, nil)
	if err != nil {
		return err
	}
	state := before
	state.Journals, state.Ledger, state.Published, state.Keep = nil, nil, nil, 0
	for i, entity := range entities {
		if known, ok := afterJournals(held[i], told[string(entity)], through, arrived); ok {
			state.View = append(state.View, Change{Entity: entity, Known: known})
		}
	}
	return s.Save(ctx, key, state)
}

// afterJournals returns what a view is to hold of an entity once the journals that tell something
// of it are dropped, and whether that is another thing than what it holds.
func afterJournals(held Known, told []Known, through uint64, arrived func(event [16]byte) bool) (Known, bool) {
	// Without an event nothing was published.
	chain := []Known{held}
	for _, known := range told {
		if known.Event != chain[len(chain)-1].Event {
			chain = append(chain, known)
		}
	}
	if len(chain) == 1 {
		return held, false
	}
	last := len(chain) - 1
	if arrived(chain[last].Event) {
		return told[len(told)-1], true
	}
	// The event before the last one is what the last one follows: told again, that is the same.
	// After a delete there is none to follow.
	doubt := chain[last-1]
	for i := last; doubt.Fate != Live && i >= 0; i-- {
		doubt = chain[i]
	}
	if doubt.Fate != Live {
		return held, false
	}
	if held.Fate == Live && doubt.Row > through {
		// What it is in the other row is told when that is read again.
		doubt.Row = held.Row
	}
	doubt.State = InDoubt
	return doubt, true
}
