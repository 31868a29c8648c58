package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"testing"
)

// gone deletes one of the two capabilities that newInfo has.
var gone = change{StpName: "stp-1", CapabilityKey: "cpu.cores", deleted: true}

// step is one of the two that handle the deletion.
type step func(*testing.T, *info)

func toStore(t *testing.T, i *info) {
	if err := i.write(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
}

func toCache(_ *testing.T, i *info) { i.drop(gone.StpName) }

// updateCache changes what is cached, where the STP is.
func updateCache(_ *testing.T, i *info) { delete(i.cached[gone.StpName], gone.CapabilityKey) }

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
		i := newInfo(t)
		if !serves(t, i) {
			t.Fatal("nothing is cached")
		}
		ended, end := context.WithCancel(t.Context())
		end()
		// A store that cannot be written leaves the cache alone, so it comes first.
		if err := i.handle(ended, gone); !errors.Is(err, context.Canceled) || i.cached[gone.StpName] == nil {
			t.Errorf("%v, cached is %v", err, i.cached)
		}
		if err := i.handle(t.Context(), gone); err != nil || serves(t, i) {
			t.Errorf("a deleted capability is served, %v", err)
		}
	})
}

func newInfo(t *testing.T) *info {
	t.Helper()
	db, err := sql.Open("sqlite", t.TempDir()+"/info.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	tables, err := os.ReadFile("table.sqlite.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(string(tables) + "INSERT INTO stp_info VALUES ('stp-1', 'cpu.cores', '64'), ('stp-1', 'memory', '256')"); err != nil {
		t.Fatal(err)
	}
	return &info{db: db, cached: make(map[string]map[string]string), drops: make(map[string]int)}
}

// servesDeleted handles the deletion with a query before the step at, and reports whether a later
// query still has the capability. A slow query fills the cache only after all steps.
func servesDeleted(t *testing.T, steps []step, at int, slow bool) bool {
	i := newInfo(t)
	fill := func() {}
	for n := 0; n <= len(steps); n++ {
		if n == at {
			since := i.drops[gone.StpName]
			found, err := load(t.Context(), i.db, "stp_info WHERE stp_name = ?", gone.StpName)
			if err != nil {
				t.Fatal(err)
			}
			if fill = func() { i.fill(gone.StpName, found, since) }; !slow {
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
