package stream

import (
	"testing"

	"example.org/bridge/checkpoint/store"
)

// TestAStaleRow: it deletes nothing by itself, as a reconcile has a guard for that. The
// delete of one that is gone is confirmed where the bus may have lost it.
func TestAStaleRow(t *testing.T) {
	for _, state := range []store.EntryState{store.Unknown, store.Live, store.Recorded, store.Tombstone, store.Absent} {
		for _, disputed := range []bool{false, true} {
			k := newDesk(t)
			entry := store.Entry{Shard: "a", Row: 7, State: state, Disputed: disputed, Event: eventA}
			if state == store.Live {
				entry.Digest = stateA
			}
			k.put(entry)
			claims := k.begin("a")
			d := k.decideRow(claims, Row{ID: 7, Digest: stateB, Deleted: true, Silent: true, Stale: true})
			gone := state == store.Tombstone || state == store.Absent
			if d.News || d.Nominate != (disputed && gone) || !claims.Empty() {
				t.Errorf("state %v, disputed %t: news %t, nominates %t", state, disputed, d.News, d.Nominate)
			}
		}
	}
}
