package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"testing"

	"example.org/bridge/tests/must"
)

// gone deletes one of the two capabilities that newInfo has.
var gone = change{StpName: "stp-1", CapabilityKey: "cpu.cores", deleted: true}

// TestAQueryBesideADeletion has a query begin before, between and behind the two steps of a
// deletion, and fill the cache at once or behind them: no later query has what was deleted.
func TestAQueryBesideADeletion(t *testing.T) {
	for at := range 3 {
		for _, slow := range []bool{false, true} {
			i := newInfo(t)
			fill := func() {}
			query := func(step int) {
				if step != at {
					return
				}
				since := i.drops[gone.StpName]
				found, err := load(t.Context(), i.db, "stp_info WHERE stp_name = ?", gone.StpName)
				must.OK(t, err)
				if fill = func() { i.fill(gone.StpName, found, since) }; !slow {
					fill()
				}
			}
			query(0)
			must.OK(t, i.write(t.Context(), gone))
			query(1)
			i.drop(gone.StpName)
			if query(2); slow {
				fill()
			}
			if serves(t, i) {
				t.Errorf("a deleted capability is served: query at step %d, slow: %t", at, slow)
			}
		}
	}
}

// TestTheStoreComesFirst: a store that cannot be written leaves the cache alone.
func TestTheStoreComesFirst(t *testing.T) {
	i := newInfo(t)
	if !serves(t, i) {
		t.Fatal("nothing is cached")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := i.handle(ended, gone); !errors.Is(err, context.Canceled) || i.cached[gone.StpName] == nil {
		t.Errorf("%v, cached is %v", err, i.cached)
	}
	if err := i.handle(t.Context(), gone); err != nil || serves(t, i) {
		t.Errorf("a deleted capability is served, %v", err)
	}
}

func newInfo(t *testing.T) *info {
	t.Helper()
	db, err := sql.Open("sqlite", t.TempDir()+"/info.db")
	must.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	tables, err := os.ReadFile("table.sqlite.sql")
	must.OK(t, err)
	_, err = db.Exec(string(tables) + "INSERT INTO stp_info VALUES ('stp-1', 'cpu.cores', '64'), ('stp-1', 'memory', '256')")
	must.OK(t, err)
	return &info{db: db, cached: make(map[string]map[string]string), drops: make(map[string]int)}
}

// serves reports whether a query has the capability that gone deletes.
func serves(t *testing.T, i *info) bool {
	t.Helper()
	found, err := i.query(t.Context(), gone.StpName)
	must.OK(t, err)
	if found["memory"] != "256" {
		t.Errorf("found %v, want the other capability", found)
	}
	_, ok := found[gone.CapabilityKey]
	return ok
}
