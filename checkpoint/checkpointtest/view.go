package checkpointtest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint"
)

// Known makes what a view holds of an entity, different for every n.
func Known(fate checkpoint.Fate, row uint64, n int) checkpoint.Known {
	k := checkpoint.Known{Row: row, Fate: fate}
	binary.BigEndian.PutUint64(k.Event[8:], uint64(n)+1)
	if fate == checkpoint.Gone {
		k.Since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n) * time.Second)
	} else {
		binary.BigEndian.PutUint64(k.State[:], uint64(n)+1)
	}
	return k
}

func change(entity string, k checkpoint.Known) checkpoint.Change {
	return checkpoint.Change{Entity: []byte(entity), Known: k}
}

// model is what a view should hold.
type model map[string]checkpoint.Known

func (m model) apply(changes []checkpoint.Change) {
	for _, c := range changes {
		if c.Known.Fate == checkpoint.Unknown {
			delete(m, string(c.Entity))
		} else {
			m[string(c.Entity)] = c.Known
		}
	}
}

// rows are the entities with a row, in the order of rows.
func (m model) rows() []checkpoint.Entity {
	var rows []checkpoint.Entity
	for entity, k := range m {
		if k.Fate == checkpoint.Live || k.Fate == checkpoint.Tombstone {
			rows = append(rows, checkpoint.Entity{Row: k.Row, State: k.State, Fate: k.Fate, Entity: []byte(entity)})
		}
	}
	slices.SortFunc(rows, func(a, b checkpoint.Entity) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), bytes.Compare(a.Entity, b.Entity))
	})
	return rows
}

// mustKnow fails the test unless the view of a shard is want, for these other entities too, looked
// up and read by row.
func mustKnow(t *testing.T, s checkpoint.Store, k checkpoint.Key, want model, others ...string) {
	t.Helper()
	for entity := range want {
		others = append(others, entity)
	}
	slices.Sort(others)
	var entities [][]byte
	for _, entity := range others {
		entities = append(entities, []byte(entity))
	}
	known, err := s.Lookup(t.Context(), k, entities, nil)
	if err != nil || len(known) != len(entities) {
		t.Fatalf("Lookup returns %d of %d entities, %v", len(known), len(entities), err)
	}
	for i, entity := range others {
		if known[i] != want[entity] {
			t.Fatalf("entity %.60q is known as\n%+v, want\n%+v", entity, known[i], want[entity])
		}
	}
	rows, err := s.ByRow(t.Context(), k, 0, len(want)+1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if from := want.rows(); !reflect.DeepEqual(rows, from) {
		t.Fatalf("by row the view is %d entities, want %d", len(rows), len(from))
	}
}

func lookup(t *testing.T, f Fixture) {
	mustKnow(t, f.Store, key(1), model{}, "a", "b")
	long := strings.Repeat("x", checkpoint.MaxEntity)
	changes := []checkpoint.Change{
		change("b", Known(checkpoint.Live, 7, 1)), change("a", Known(checkpoint.Tombstone, 1<<64-1, 2)),
		change("B", Known(checkpoint.Gone, 9, 3)), change("\x00", checkpoint.Known{Row: 1, Fate: checkpoint.Live}), change(long, Known(checkpoint.Live, 2, 4)),
	}
	want := model{}
	want.apply(changes)
	mustSave(t, f.Store, key(1), checkpoint.State{View: changes})
	spoilt := slices.Clone(changes[0].Entity)
	clear(changes[0].Entity)
	changes[0].Entity = spoilt
	mustKnow(t, f.Store, key(1), want, "A", "ab", "", "b\x00")
	mustKnow(t, f.Store, key(2), model{}, "a", "b")

	known, err := f.Store.Lookup(t.Context(), key(1), [][]byte{[]byte("b"), []byte("nobody"), []byte("b"), []byte("a")}, make([]checkpoint.Known, 1, 9))
	if err != nil || !slices.Equal(known, []checkpoint.Known{{}, want["b"], {}, want["b"], want["a"]}) {
		t.Errorf("Lookup appends %+v, %v", known, err)
	}
	got, err := f.Store.Load(t.Context(), key(1))
	if err != nil || got.View != nil {
		t.Errorf("Load returns changes of the view: %v, %v", got.View, err)
	}
	mustSave(t, f.Store, key(1), State(3))
	mustKnow(t, f.Store, key(1), want)
}

func lastChangeHolds(t *testing.T, f Fixture) {
	mustSave(t, f.Store, key(1), checkpoint.State{View: []checkpoint.Change{
		change("a", Known(checkpoint.Live, 9, 1)), change("b", Known(checkpoint.Live, 2, 2)),
		change("a", Known(checkpoint.Live, 3, 3)), change("b", checkpoint.Known{}), change("c", checkpoint.Known{}),
	}})
	mustKnow(t, f.Store, key(1), model{"a": Known(checkpoint.Live, 3, 3)}, "b", "c")
	mustSave(t, f.Store, key(1), checkpoint.State{View: []checkpoint.Change{change("a", Known(checkpoint.Live, 9, 4)), change("b", Known(checkpoint.Live, 3, 5))}})
	mustKnow(t, f.Store, key(1), model{"a": Known(checkpoint.Live, 9, 4), "b": Known(checkpoint.Live, 3, 5)})
}

func noChange(t *testing.T, f Fixture) {
	holds := model{"a": Known(checkpoint.Live, 1, 1)}
	mustSave(t, f.Store, key(1), checkpoint.State{View: []checkpoint.Change{change("a", holds["a"])}})
	for name, c := range map[string]checkpoint.Change{
		"no entity":                {Known: Known(checkpoint.Live, 1, 1)},
		"an entity that is large":  change(strings.Repeat("x", checkpoint.MaxEntity+1), Known(checkpoint.Live, 1, 1)),
		"a fate that is none":      change("b", Known(checkpoint.Gone+1, 1, 1)),
		"a row of nobody":          change("b", checkpoint.Known{Row: 1}),
		"a state of what is gone":  change("b", checkpoint.Known{Fate: checkpoint.Gone, State: [16]byte{1}}),
		"a time of what is there":  change("b", checkpoint.Known{Fate: checkpoint.Live, Since: time.Unix(1, 0)}),
		"a time that is far ahead": change("b", checkpoint.Known{Fate: checkpoint.Gone, Since: time.Unix(1<<40, 0)}),
	} {
		state := checkpoint.State{View: []checkpoint.Change{change("a", Known(checkpoint.Live, 2, 2)), c}}
		if err := f.Store.Save(t.Context(), key(1), state); err == nil {
			t.Errorf("Save of %s returns nil", name)
		}
		mustKnow(t, f.Store, key(1), holds, "b")
	}
}

func fates(t *testing.T, f Fixture) {
	all := []checkpoint.Fate{checkpoint.Unknown, checkpoint.Live, checkpoint.Tombstone, checkpoint.Gone}
	n := 0
	for _, from := range all {
		for _, to := range all {
			entity := fmt.Sprint(from, to)
			for _, fate := range []checkpoint.Fate{from, to} {
				n++
				k := checkpoint.Known{}
				if fate != checkpoint.Unknown {
					k = Known(fate, uint64(100-n), n)
				}
				mustSave(t, f.Store, key(1), checkpoint.State{View: []checkpoint.Change{change(entity, k)}})
				want := model{}
				want.apply([]checkpoint.Change{change(entity, k)})
				mustKnow(t, f.Store, key(1), want, entity)
			}
			mustSave(t, f.Store, key(1), checkpoint.State{View: []checkpoint.Change{change(entity, checkpoint.Known{})}})
		}
	}
}

func byRow(t *testing.T, f Fixture) {
	want, changes := model{}, []checkpoint.Change(nil)
	for n := range 1000 {
		// Entities in another order than rows.
		changes = append(changes, change(fmt.Sprintf("%03d", n*7%1000), Known(checkpoint.Live+checkpoint.Fate(n%3), uint64(n*3), n)))
	}
	want.apply(changes)
	mustSave(t, f.Store, key(1), checkpoint.State{View: changes})
	for _, limit := range []int{1, 7, 999, 5000} {
		var rows []checkpoint.Entity
		for after := uint64(0); ; {
			page, err := f.Store.ByRow(t.Context(), key(1), after, limit, rows)
			if err != nil || len(page)-len(rows) > limit {
				t.Fatalf("ByRow after %d returns %d entities of %d, %v", after, len(page)-len(rows), limit, err)
			}
			if len(page) == len(rows) {
				break
			}
			rows, after = page, page[len(page)-1].Row
		}
		// The row 0 is above nothing.
		if from := want.rows()[1:]; !reflect.DeepEqual(rows, from) {
			t.Fatalf("in pages of %d the view is %d entities, want %d", limit, len(rows), len(from))
		}
	}
	for _, after := range []uint64{3000, 1<<64 - 1} {
		if rows, err := f.Store.ByRow(t.Context(), key(1), after, 10, nil); err != nil || len(rows) > 0 {
			t.Errorf("ByRow after %d returns %v, %v", after, rows, err)
		}
	}
}

func sharedRow(t *testing.T, f Fixture) {
	k := Known(checkpoint.Live, 5, 1)
	want := model{"a": k, "b": k, "c": Known(checkpoint.Live, 5, 2), "d": Known(checkpoint.Live, 6, 3)}
	for entity, known := range want {
		mustSave(t, f.Store, key(1), checkpoint.State{View: []checkpoint.Change{change(entity, known)}})
	}
	mustKnow(t, f.Store, key(1), want)
	page, err := f.Store.ByRow(t.Context(), key(1), 4, 2, nil)
	if err != nil || !reflect.DeepEqual(page, want.rows()[:3]) {
		t.Errorf("ByRow returns %v, %v, want all three entities of row 5", page, err)
	}
	mustSave(t, f.Store, key(1), checkpoint.State{View: []checkpoint.Change{change("b", Known(checkpoint.Gone, 5, 9))}})
	want["b"] = Known(checkpoint.Gone, 5, 9)
	mustKnow(t, f.Store, key(1), want)
}
