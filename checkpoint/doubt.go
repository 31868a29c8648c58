package checkpoint

import (
	"bytes"
	"context"
	"maps"
	"slices"
)

// InDoubt is the state of a live entity of which nobody knows what was published last. No row has it, so that whatever is found of the entity
// is news: no state hash, of which this would be one in 2^128, and no meta.id, which is a UUID of version 5.
var InDoubt = [16]byte(bytes.Repeat([]byte{0xff}, 16))

// DropJournals saves a state as it was loaded, but without the journals: the batches that were on their way at the last end. Nobody knows what
// of them is on the bus, so that it is in doubt what was published last of their entities: whatever is true of one is published
// again, be it a delete. Where nothing has changed since, that has the id that it had.
func DropJournals(ctx context.Context, s Store, key Key, before State) error {
	if len(before.Journals) == 0 {
		return nil
	}
	// told is what the batches say last, there what they said last of an entity while it had a row.
	told, there := make(map[string]Known), make(map[string]Known)
	for _, j := range before.Journals {
		for _, change := range j.After.View {
			entity := string(change.Entity)
			if told[entity] = change.Known; change.Known.Fate != Gone {
				there[entity] = change.Known
			}
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
	state.Journals, state.Ledger = nil, nil
	for i, entity := range entities {
		known := held[i]
		if known.Event == told[string(entity)].Event {
			continue
		}
		if known.Fate != Live {
			known = there[string(entity)]
		}
		if known.Fate != Unknown {
			known.Fate, known.State = Live, InDoubt
			state.View = append(state.View, Change{Entity: entity, Known: known})
		}
	}
	return s.Save(ctx, key, state)
}
