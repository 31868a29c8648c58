package event

import (
	"sync"
	"testing"

	"bridge/source"
)

func TestEncodersSharePlans(t *testing.T) {
	columns := func() *source.Columns {
		return &source.Columns{List: []source.Column{{Name: "id"}, {Name: "v"}}, Key: []int{0}, Created: -1, Modified: -1, Deleted: -1}
	}
	var plans Plans
	encoder := func(table string) *Encoder {
		e, err := NewEncoder(Options{Stream: "s", Shard: table, Kind: Release, Source: "db", Table: table})
		if err != nil {
			t.Fatal(err)
		}
		e.Share(&plans)
		return e
	}
	shared, others := columns(), columns()
	var all [8]*Encoder
	var group sync.WaitGroup
	for i := range all {
		all[i] = encoder("t")
		group.Go(func() {
			if err := all[i].Bind(shared); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	one, two := encoder("one"), encoder("two")
	for _, e := range []*Encoder{one, two} {
		if err := e.Bind(shared); err != nil {
			t.Fatal(err)
		}
	}
	if one.plan != two.plan {
		t.Error("two tables with the same columns have two plans")
	}
	if err := two.Bind(others); err != nil || two.plan == one.plan || two.plan.columns != others {
		t.Errorf("other columns have the plan of the former: %v", err)
	}
	twice := columns()
	twice.List[1].Name = "id"
	if err := two.Bind(twice); err == nil {
		t.Error("columns with one name are taken")
	}
	if err := one.Bind(others); err != nil || one.plan.columns != others {
		t.Errorf("a fault of others is kept: %v", err)
	}
}
