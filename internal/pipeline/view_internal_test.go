package pipeline

import (
	"testing"

	"bridge/checkpoint"
	"bridge/event"
)

func TestDecide(t *testing.T) {
	before, after := [16]byte{1}, [16]byte{2}
	for name, c := range map[string]struct {
		deleted bool
		known   checkpoint.Known
		op      event.Op
		news    bool
	}{
		"a row of an entity that is not known adds it":        {false, checkpoint.Known{}, event.Added, true},
		"a row of an entity that is gone adds it":             {false, checkpoint.Known{Row: 7, Fate: checkpoint.Gone}, event.Added, true},
		"a row of an entity that is deleted adds it":          {false, checkpoint.Known{Row: 7, Fate: checkpoint.Tombstone, State: after}, event.Added, true},
		"another state modifies":                              {false, checkpoint.Known{Row: 7, Fate: checkpoint.Live, State: before}, event.Modified, true},
		"the same state in another row is no news":            {false, checkpoint.Known{Row: 6, Fate: checkpoint.Live, State: after}, event.Modified, false},
		"a tombstone deletes what lives":                      {true, checkpoint.Known{Row: 7, Fate: checkpoint.Live, State: before}, event.Deleted, true},
		"a tombstone of what is not known is told":            {true, checkpoint.Known{}, event.Deleted, true},
		"a tombstone that is touched is no news":              {true, checkpoint.Known{Row: 7, Fate: checkpoint.Tombstone, State: before}, event.Deleted, false},
		"a tombstone whose row was gone and is back is none":  {true, checkpoint.Known{Row: 7, Fate: checkpoint.Gone}, event.Deleted, false},
		"a tombstone in another row than what is gone is one": {true, checkpoint.Known{Row: 6, Fate: checkpoint.Gone}, event.Deleted, true},
	} {
		t.Run(name, func(t *testing.T) {
			one := sight{row: 7, state: after, deleted: c.deleted, known: c.known}
			if op, news := one.decide(); op != c.op || news != c.news {
				t.Errorf("%v of %+v: %s, news %v; want %s, %v", one, c.known, op, news, c.op, c.news)
			}
		})
	}
}
