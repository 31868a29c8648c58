package main

import (
	"context"
	"maps"
	"testing"
)

// memory is a store of one STP for tests.
type memory capabilities

func (m memory) load(context.Context, string) (capabilities, error) {
	return maps.Clone(capabilities(m)), nil
}

func (m memory) put(_ context.Context, c change) error {
	m[c.CapabilityKey] = c.CapabilityValue
	return nil
}

func (m memory) remove(_ context.Context, c change) error {
	delete(m, c.CapabilityKey)
	return nil
}

// step is one of the two that handle the deletion of a capability.
type step func(*testing.T, *info)

var gone = change{StpName: "stp-1", CapabilityKey: "cpu.cores", deleted: true}

func toStore(t *testing.T, i *info) {
	if err := i.write(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
}

func toCache(_ *testing.T, i *info) { i.cache.drop(gone.StpName) }

// updateCache changes what is cached, where the STP is.
func updateCache(_ *testing.T, i *info) { delete(i.cache.stps[gone.StpName], gone.CapabilityKey) }

// TestOrdersOfStoreAndCache runs a query at each point of each order: one that ends there, and one
// that reads the store there and fills the cache after the deletion was handled.
func TestOrdersOfStoreAndCache(t *testing.T) {
	for _, order := range []struct {
		name   string
		steps  []step
		serves bool
	}{
		{"the store first, then the cache", []step{toStore, toCache}, false},
		{"the cache first, then the store", []step{toCache, toStore}, true},
		{"an update of the cache, then of the store", []step{updateCache, toStore}, true},
	} {
		t.Run(order.name, func(t *testing.T) {
			served := false
			for at := 0; at <= len(order.steps); at++ {
				for _, slow := range []bool{false, true} {
					served = servesDeleted(t, order.steps, at, slow) || served
				}
			}
			if served != order.serves {
				t.Errorf("a deleted capability is served: %v, want %v", served, order.serves)
			}
		})
	}
	t.Run("handle takes the first order", func(t *testing.T) {
		i := newInfo()
		i.store = beforeRemove{i.store, func() {
			if _, err := i.query(t.Context(), gone.StpName); err != nil {
				t.Error(err)
			}
		}}
		if err := i.handle(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if serves(t, i) {
			t.Error("a deleted capability is served")
		}
	})
}

// beforeRemove is a store that does something just before a capability is removed.
type beforeRemove struct {
	store
	do func()
}

func (b beforeRemove) remove(ctx context.Context, c change) error {
	b.do()
	return b.store.remove(ctx, c)
}

func newInfo() *info {
	return &info{store: memory{"cpu.cores": "64", "memory": "256"}, cache: newCache()}
}

// servesDeleted handles the deletion with a query before the step at, and reports whether a later
// query still has the capability. A slow query fills the cache only after all steps.
func servesDeleted(t *testing.T, steps []step, at int, slow bool) bool {
	i := newInfo()
	fill := func() {}
	for n := 0; n <= len(steps); n++ {
		if n == at {
			read, err := i.load(t.Context(), gone.StpName)
			if err != nil {
				t.Fatal(err)
			}
			if fill = func() { i.cache.fill(read) }; !slow {
				fill()
			}
		}
		if n < len(steps) {
			steps[n](t, i)
		}
	}
	if slow {
		fill()
	}
	return serves(t, i)
}

func serves(t *testing.T, i *info) bool {
	found, err := i.query(t.Context(), gone.StpName)
	if err != nil {
		t.Fatal(err)
	}
	if found["memory"] != "256" {
		t.Errorf("found %v, want the other capability", found)
	}
	_, ok := found[gone.CapabilityKey]
	return ok
}
