package store_test

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"example.org/bridge/checkpoint/store"
)

func TestSchemaForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &store.Schema{
			Version: [3]uint32{rapid.Uint32().Draw(t, "major"), rapid.Uint32().Draw(t, "minor"), rapid.Uint32().Draw(t, "patch")},
			Epoch:   rapid.Uint64().Draw(t, "epoch"), Seq: rapid.Uint64().Draw(t, "seq"),
		}
		copy(s.Hash[:], rapid.SliceOfN(rapid.Byte(), len(s.Hash), len(s.Hash)).Draw(t, "hash"))
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			s.Members = append(s.Members, store.SchemaMember{Name: rapid.String().Draw(t, "name"), Type: rapid.String().Draw(t, "type")})
		}
		form := store.AppendSchema(nil, s)
		if got, err := store.ParseSchema(form); err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("%+v, %v, want %+v", got, err, s)
		}
		form[rapid.IntRange(0, len(form)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got, err := store.ParseSchema(form); !errors.Is(err, store.ErrDamaged) {
			t.Fatalf("a damaged form is read as %+v, %v", got, err)
		}
	})
}
