package view

import (
	"testing"

	"bridge/checkpoint/store"
	"bridge/event"
)

// TestSilentRows decides about row 7 of shard a, which is deleted and silent.
func TestSilentRows(t *testing.T) {
	live, tombstone := in("a", 7, store.Live, stateA), in("a", 7, store.Tombstone, [16]byte{})
	for name, c := range map[string]struct {
		known store.Entry
		floor uint64
		news  bool
		after store.EntryState
	}{
		"of what is not known it says nothing":     {store.Entry{}, 0, false, store.Unknown},
		"what lives it deletes":                    {live, 0, true, store.Tombstone},
		"what is deleted it leaves":                {tombstone, 0, false, store.Tombstone},
		"what is absent it leaves":                 {gone(live), 0, false, store.Absent},
		"what is absent in another row, too":       {gone(in("a", 6, store.Live, stateA)), 0, false, store.Absent},
		"what is deleted for uncertain, it says":   {disputed(tombstone), 0, true, store.Tombstone},
		"what is absent for uncertain, it says":    {disputed(gone(live)), 0, true, store.Tombstone},
		"below the floor it is noted, for later":   {store.Entry{}, 7, false, store.Tombstone},
		"what was recorded it deletes":             {store.Entry{Shard: "a", Row: 7, State: store.Recorded, Digest: stateA}, 7, true, store.Tombstone},
		"what lives in another row of the shard":   {in("a", 6, store.Live, stateA), 0, true, store.Tombstone},
		"what was deleted in another row it takes": {in("a", 6, store.Tombstone, [16]byte{}), 0, false, store.Tombstone},
	} {
		t.Run(name, func(t *testing.T) {
			k := newDesk(t)
			k.next = 10
			k.put(c.known)
			claims := k.begin("a")
			claims.Floor = c.floor
			row := Row{ID: 7, Entity: []byte("x"), Digest: stateB, Deleted: true, Silent: true}
			list, err := k.Decide(t.Context(), claims, []Row{row}, nil)
			if err != nil {
				t.Fatal(err)
			}
			d := &list[0]
			if d.News != c.news || d.News && d.Op != event.Deleted || d.Nominate {
				t.Fatalf("%+v", d)
			}
			if d.News {
				claims.Publish(d, eventB)
			}
			k.acknowledge(claims)
			if got := k.stored(); got.State != c.after {
				t.Errorf("afterwards it is %+v, want the state %v", got, c.after)
			}
		})
	}
}
