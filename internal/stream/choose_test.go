package stream

import (
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
)

func TestChoose(t *testing.T) {
	entry := in("a", 7, store.Live, stateA)
	found := func(shard string, row uint64, digest [16]byte) Found {
		return Found{Shard: shard, Row: row, Digest: digest}
	}
	modified := func(f Found, s int64) Found { f.Modified = time.Unix(s, 0); return f }
	deleted := func(f Found) Found { f.Deleted = true; return f }
	for name, c := range map[string]struct {
		entry  store.Entry
		found  []Found
		proved bool
		what   outcome
		row    int
	}{
		"what the entry says is there":                      {entry, []Found{found("a", 7, stateA)}, true, nothing, 0},
		"what the entry says, disputed":                     {disputed(entry), []Found{found("a", 7, stateA)}, true, publish, 0},
		"another state":                                     {entry, []Found{found("a", 7, stateB)}, true, publish, 0},
		"another row":                                       {entry, []Found{found("a", 8, stateA)}, true, publish, 0},
		"another shard":                                     {entry, []Found{found("b", 1, stateA)}, true, publish, 0},
		"a tombstone":                                       {entry, []Found{deleted(found("a", 7, stateA))}, true, publish, 0},
		"nothing is known":                                  {store.Entry{}, []Found{found("b", 1, stateA)}, true, publish, 0},
		"no row, in one snapshot":                           {entry, nil, true, absent, -1},
		"no row, in a first round":                          {entry, nil, false, again, -1},
		"no row of a tombstone":                             {in("a", 7, store.Tombstone, [16]byte{}), nil, true, absent, -1},
		"no row of what is absent":                          {gone(entry), nil, true, nothing, -1},
		"no row of what is absent and disputed":             {disputed(gone(entry)), nil, true, absent, -1},
		"no row of what is not known":                       {store.Entry{}, nil, true, nothing, -1},
		"two rows: the later MODIFIED":                      {entry, []Found{modified(found("a", 7, stateA), 5), modified(found("b", 1, stateB), 6)}, true, publish, 1},
		"two rows: the later MODIFIED is that of a delete":  {entry, []Found{modified(found("a", 7, stateA), 5), modified(deleted(found("b", 1, stateB)), 6)}, true, publish, 1},
		"two rows with one MODIFIED: that of the entry":     {entry, []Found{modified(found("b", 1, stateB), 5), modified(found("a", 7, stateA), 5)}, true, nothing, 1},
		"two rows, one without MODIFIED: that of the entry": {entry, []Found{modified(found("b", 1, stateB), 5), found("a", 7, stateA)}, true, nothing, 1},
		"two rows, one of them deleted: the other":          {entry, []Found{deleted(found("a", 7, stateA)), found("b", 1, stateB)}, true, publish, 1},
		"two rows in neither shard of the entry":            {entry, []Found{found("c", 1, stateA), found("b", 9, stateB)}, true, publish, 1},
		"two rows of one shard: the higher":                 {entry, []Found{found("a", 9, stateB), found("a", 7, stateA)}, true, publish, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if what, row := choose(&c.entry, c.found, c.proved); what != c.what || row != c.row {
				t.Errorf("%v of row %d", what, row)
			}
			// The order in which tables are read does not matter.
			if n := len(c.found); n == 2 {
				if what, row := choose(&c.entry, []Found{c.found[1], c.found[0]}, c.proved); what != c.what || row != 1-c.row {
					t.Errorf("the other way round: %v of row %d", what, row)
				}
			}
		})
	}
}
