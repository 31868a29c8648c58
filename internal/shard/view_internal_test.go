package shard

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
			one := decision{row: 7, digest: after, deleted: c.deleted, known: c.known}
			if op, news := one.decide(); op != c.op || news != c.news {
				t.Errorf("%v of %+v: %s, news %v; want %s, %v", one, c.known, op, news, c.op, c.news)
			}
		})
	}
}

func TestDroppedBatch(t *testing.T) {
	entity := []byte("a")
	known := func(row uint64) checkpoint.Known { return checkpoint.Known{Row: row, Fate: checkpoint.Live} }
	// made returns the batch being made, which knows the entity in these rows one after the other.
	made := func(v *view, rows ...uint64) *batch {
		b := new(batch)
		for _, row := range rows {
			b.change(entity, known(row))
		}
		v.note(b)
		return b
	}
	expect := func(t *testing.T, v *view, row uint64) {
		t.Helper()
		v.forget()
		entry, ok := v.ahead["a"]
		var got uint64
		if ok {
			got = entry.known.Row
		}
		if got != row {
			t.Errorf("the view holds row %d, want %d, 0 is none", got, row)
		}
	}
	t.Run("shows what the checkpoint shows", func(t *testing.T) {
		v := newView(&Options{Kind: event.Capability}, nil)
		b := made(v, 1, 2)
		expect(t, v, 2)
		v.drop(b)
		expect(t, v, 0)
	})
	t.Run("shows what is in flight", func(t *testing.T) {
		v := newView(&Options{Kind: event.Capability}, nil)
		v.hand(made(v, 1))
		second := made(v, 2)
		v.hand(second)
		b := made(v, 3, 4)
		v.saved.Store(1)
		expect(t, v, 4)
		v.drop(b)
		expect(t, v, 2)
		v.hand(made(v, 5))
		v.saved.Store(second.seq)
		expect(t, v, 5)
	})
	t.Run("shows what the checkpoint shows where that was saved meanwhile", func(t *testing.T) {
		for name, forgotten := range map[string]bool{"before the drop": false, "and forgotten": true} {
			t.Run(name, func(t *testing.T) {
				v := newView(&Options{Kind: event.Capability}, nil)
				first := made(v, 1)
				v.hand(first)
				b := made(v, 2)
				v.saved.Store(first.seq)
				if forgotten {
					expect(t, v, 2)
				}
				v.drop(b)
				expect(t, v, 0)
				if len(v.queue) > 0 {
					t.Errorf("batches that are saved are in flight: %+v", v.queue)
				}
			})
		}
	})
	t.Run("shows what is foreseen", func(t *testing.T) {
		v := newView(&Options{Kind: event.Capability}, nil)
		v.foresee([]checkpoint.Change{{Entity: entity, Known: known(1)}})
		v.drop(made(v, 2))
		expect(t, v, 1)
	})
	t.Run("leaves what the next one replaces", func(t *testing.T) {
		v := newView(&Options{Kind: event.Capability}, nil)
		v.hand(made(v, 1))
		v.drop(made(v, 2))
		v.hand(made(v, 3))
		v.drop(made(v, 4))
		expect(t, v, 3)
		if len(v.replaced) > 0 || len(v.queue) != 2 {
			t.Errorf("replaced %+v, in flight %+v", v.replaced, v.queue)
		}
	})
}
