package checkpoint

import (
	"context"
	"iter"

	"bridge/source/ledger"
)

// partsAtOnce is how many parts of a ledger are read at once: together some 100 KiB.
const partsAtOnce = 64

// LedgerParts returns the saved parts of a shard's gap ledger after its head, in the order of
// their keys, for ledger.RestoreParts. An error ends them.
func LedgerParts(ctx context.Context, views Views, key Key) iter.Seq2[ledger.Chunk, error] {
	return func(yield func(ledger.Chunk, error) bool) {
		var parts []ledger.Chunk
		for last := uint64(0); ; last = parts[len(parts)-1].Key {
			var err error
			// The first part is the last one that was read, or the head.
			parts, err = views.LedgerParts(ctx, key, last, partsAtOnce, parts[:0])
			if err != nil {
				yield(ledger.Chunk{}, err)
				return
			}
			if len(parts) < 2 {
				return
			}
			for _, part := range parts[1:] {
				if !yield(part, nil) {
					return
				}
			}
		}
	}
}
