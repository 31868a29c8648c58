package checkpointtest

import (
	"reflect"
	"testing"

	"bridge/checkpoint"
)

func meaning(t *testing.T, f Fixture) {
	save := func(m *checkpoint.Meaning) {
		t.Helper()
		s := State(1)
		s.Meaning = m
		mustSave(t, f.Store, key(1), s)
	}
	store := f.Store
	expect := func(want *checkpoint.Meaning) {
		t.Helper()
		got, err := store.Load(t.Context(), key(1))
		if err != nil || !reflect.DeepEqual(got.Meaning, want) {
			t.Errorf("the meaning is %+v, %v, want %+v", got.Meaning, err, want)
		}
		entries, err := store.List(t.Context())
		if err != nil || len(entries) != 1 || !reflect.DeepEqual(entries[0].State.Meaning, want) {
			t.Errorf("List returns %+v, %v, want the meaning %+v", entries, err, want)
		}
	}
	first := &checkpoint.Meaning{Kind: "capability", Table: "shop.orders", ID: "id", Key: []string{"region", "number"}}
	second := &checkpoint.Meaning{Kind: "release", Table: "shop.orders", ID: "id", Key: []string{"id"}}
	save(nil)
	expect(nil)
	save(first)
	expect(first)
	save(nil)
	expect(first)
	save(second)
	save(second)
	expect(second)
	if f.Reopen != nil {
		store = f.Reopen(t)
		f.Store = store
		expect(second)
	}
	save(&checkpoint.Meaning{})
	expect(nil)
}
