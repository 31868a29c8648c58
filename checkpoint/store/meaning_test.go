package store_test

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"example.org/bridge/checkpoint/store"
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

func TestMeaningForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &store.Meaning{Kind: rapid.String().Draw(t, "kind"), Table: rapid.String().Draw(t, "table"), ID: rapid.String().Draw(t, "id")}
		for range rapid.IntRange(0, 3).Draw(t, "keys") {
			m.Key = append(m.Key, rapid.String().Draw(t, "key"))
		}
		form := store.AppendMeaning(nil, m)
		if got, err := store.ParseMeaning(form); err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%+v, %v, want %+v", got, err, m)
		}
		form[rapid.IntRange(0, len(form)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got, err := store.ParseMeaning(form); !errors.Is(err, store.ErrDamaged) {
			t.Fatalf("a damaged form is read as %+v, %v", got, err)
		}
	})
}
