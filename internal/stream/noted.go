package stream

import (
	"context"
	"fmt"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/form"
	"example.org/bridge/sink"
)

// eachNoted calls do for the messages that a former version has put beside the progress of a shard,
// for its owner to take in, and returns the numbers of their parts. The error wraps ErrDamaged or
// is the store's.
func eachNoted(ctx context.Context, s store.Store, key store.Key, do func(row uint64, origin sink.Origin, state *sink.State)) (parts []uint64, err error) {
	for one, err := range s.Parts(ctx, key, store.Noted, 0) {
		if err == nil {
			err = parseNotes(one.Bytes, do)
		}
		if err != nil {
			return nil, fmt.Errorf("notes %d: %w", one.Number, err)
		}
		parts = append(parts, one.Number)
	}
	return parts, nil
}

// parseNotes calls do for the messages in a part of notes, sealed with the version 1. Of each it
// has bits (1 byte), the differences of row and seq from those before (varints) and, where they
// differ, epoch, floor, since and low (unsigned varints). The error wraps ErrDamaged.
func parseNotes(b []byte, do func(row uint64, origin sink.Origin, state *sink.State)) error {
	const (
		version   = 1
		tailBit   = 1
		commonBit = 2
	)
	r, row, state := form.Open(b, version), uint64(0), sink.State{}
	for len(r.Rest) > 0 {
		bits, origin := r.Bytes(1)[0], sink.FromLate
		row += uint64(r.Int())
		state.Seq += uint64(r.Int())
		if bits&commonBit != 0 {
			state.Epoch, state.Floor, state.Since, state.Low = r.Uint(), r.Uint(), r.Uint(), r.Uint()
		}
		if bits&tailBit != 0 {
			origin = sink.FromTail
		}
		if r.Err == nil {
			do(row, origin, &state)
		}
	}
	if r.Err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, r.Err)
	}
	return nil
}
