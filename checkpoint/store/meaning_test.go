package store_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/tests/must"
)

func TestMeaningDifferences(t *testing.T) {
	was := store.Meaning{Kind: "capability", Table: "shop.orders", ID: "id", Key: []string{"region", "number"}}
	for name, c := range map[string]struct {
		change func(*store.Meaning)
		want   string
	}{
		"nothing":                     {func(*store.Meaning) {}, ""},
		"another kind":                {func(m *store.Meaning) { m.Kind = "release" }, "KIND was capability and is release"},
		"another database":            {func(m *store.Meaning) { m.Table = "crm.orders" }, "TABLE was shop.orders and is crm.orders"},
		"another id":                  {func(m *store.Meaning) { m.ID = "seq" }, "ID was id and is seq"},
		"another key":                 {func(m *store.Meaning) { m.Key = []string{"number"} }, "KEY was region,number and is number"},
		"another order of the key":    {func(m *store.Meaning) { m.Key = []string{"number", "region"} }, "KEY was region,number and is number,region"},
		"columns in capital letters":  {func(m *store.Meaning) { m.ID, m.Key = "ID", []string{"Region", "NUMBER"} }, ""},
		"a key and a table after any": {func(m *store.Meaning) { m.Table, m.Key = "crm.orders", []string{"number"} }, "TABLE was shop.orders and is crm.orders, KEY was region,number and is number"},
		"a table in capital letters":  {func(m *store.Meaning) { m.Table = "shop.ORDERS" }, "TABLE was shop.orders and is shop.ORDERS"},
	} {
		now := was
		c.change(&now)
		if got := was.Differences(&now).String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestColumnsThatDifferInCaseBeyondASCII(t *testing.T) {
	was, now := store.Meaning{ID: "é", Key: []string{"Ä"}}, store.Meaning{ID: "É", Key: []string{"ä"}}
	if got := was.Differences(&now).String(); got != "ID was é and is É, KEY was Ä and is ä" {
		t.Error(got)
	}
}

func TestAnyMeaning(t *testing.T) {
	was := store.Meaning{Kind: "release", ID: "id"}
	now := store.Meaning{Kind: "release", Table: "shop.orders", ID: "id", Key: []string{"number"}}
	if got := was.Differences(&now); len(got) > 0 {
		t.Errorf("%s", got)
	}
	now.Kind = "capability"
	if got := was.Differences(&now); !got.Has("KIND") || got.Has("KEY") {
		t.Errorf("%s", got)
	}
}

func TestForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return rapid.String().Draw(t, name) }
		m := &store.Meaning{Kind: text("kind"), Table: text("table"), ID: text("id")}
		s := &store.Schema{
			Version: [3]uint32{rapid.Uint32().Draw(t, "major"), rapid.Uint32().Draw(t, "minor"), rapid.Uint32().Draw(t, "patch")},
			Epoch:   rapid.Uint64().Draw(t, "epoch"), Seq: rapid.Uint64().Draw(t, "seq"),
		}
		copy(s.Hash[:], rapid.SliceOfN(rapid.Byte(), len(s.Hash), len(s.Hash)).Draw(t, "hash"))
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			m.Key = append(m.Key, text("key"))
			s.Members = append(s.Members, store.SchemaMember{Name: text("name"), Type: text("type")})
		}
		check(t, m, store.MeaningPart, store.AppendMeaning(nil, m), store.LoadMeaning)
		check(t, s, store.SchemaPart, store.AppendSchema(nil, s), store.LoadSchema)
	})
}

// check has a store hold a form, and refuses it with any bit flipped.
func check[T any](t *rapid.T, want *T, kind store.Kind, form []byte, load func(context.Context, store.Store, store.Key) (*T, error)) {
	s, key, progress := memory.New(), store.Key{Stream: "orders", Shard: "db.orders"}, store.Progress{Saved: time.Unix(1, 0)}
	held := func() (*T, error) {
		change := store.ShardChange{Key: key, Progress: &progress, Clear: []store.Kind{kind}, Parts: []store.Part{{Kind: kind, Bytes: form}}}
		must.OK(t, s.Apply(context.Background(), &store.Batch{Shards: []store.ShardChange{change}}))
		return load(context.Background(), s, key)
	}
	if got, err := load(context.Background(), s, key); got != nil || err != nil {
		t.Fatalf("an empty store holds %+v, %v", got, err)
	}
	if got, err := held(); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	form[rapid.IntRange(0, len(form)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	if got, err := held(); !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("a damaged form is read as %+v, %v", got, err)
	}
}
