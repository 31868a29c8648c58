package workload_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
)

func newCapabilities(t *testing.T, opts workload.CapabilityOptions) *workload.Capabilities {
	t.Helper()
	w := workload.NewCapabilities(opts)
	if err := w.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// readStates returns the last version of every entity that has a row.
func readStates(t *testing.T, db *sql.DB, table string) map[string]workload.Version {
	t.Helper()
	rows, err := db.Query("SELECT app, name, id, state, deleted FROM " + table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	there := make(map[string]workload.Version)
	for rows.Next() {
		v := workload.Version{Condition: workload.Live}
		var app, name, state string
		var deleted bool
		if err := rows.Scan(&app, &name, &v.ID, &state, &deleted); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(state, "s%d", &v.State); err != nil {
			t.Fatal(err)
		}
		if deleted {
			v.Condition, v.State = workload.Tombstone, 0
		}
		there[app+"/"+name] = v
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return there
}

func TestHistoriesEndAsTheTableIs(t *testing.T) {
	changes := testall.Pick(2500, 6000)
	for name, opts := range map[string]workload.CapabilityOptions{
		"where case counts":                            {},
		"where it does not, and nothing tells changes": {Loose: true, WithoutModified: true},
	} {
		t.Run(name, func(t *testing.T) {
			opts.DB = openMariaDB(t, testenv.MariaDB(t), 8)
			opts.Entities, opts.Writers, opts.Changes, opts.Seed = 800, 8, changes, 5
			w := newCapabilities(t, opts)
			if err := w.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			versions := agreeStates(t, w, opts.DB)
			sums := w.Sums()
			t.Logf("%d versions, %v", versions, sums)
			for change := range workload.EveryChange() {
				if sums[change] == 0 {
					t.Errorf("no %s was made", change)
				}
			}
		})
	}
}

func TestACrossedReplaceLeavesTheLowerIDWithTheNewerState(t *testing.T) {
	db := openMariaDB(t, testenv.MariaDB(t), 4)
	w := newCapabilities(t, workload.CapabilityOptions{
		DB: db, Entities: 40, Writers: 2, Changes: 60, Mix: map[workload.Change]int{workload.ReplaceCrossed: 1},
	})
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	lower := 0
	for _, h := range w.Histories() {
		for i := range h.Versions[1:] {
			if h.Versions[i+1].ID < h.Versions[i].ID {
				lower++
			}
		}
	}
	if lower < 10 {
		t.Errorf("%d newer states have a lower id", lower)
	}
}

func TestAHistoryTellsWhetherAnEntityExistedAllTheWhile(t *testing.T) {
	at := func(seconds float64) time.Time {
		return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	version := func(c workload.Condition, begun float64) workload.Version {
		return workload.Version{Condition: c, CommitBegun: at(begun), CommitEnded: at(begun + 1)}
	}
	h := workload.History{Versions: []workload.Version{
		version(workload.Live, 10), version(workload.Live, 20), version(workload.Absent, 30), version(workload.Live, 40), version(workload.Tombstone, 50),
	}}
	for _, c := range []struct {
		what     string
		from, to float64
		want     bool
	}{
		{"before the first", 0, 5, false},
		{"over its first commit", 10.5, 15, false},
		{"over an update", 12, 25, true},
		{"up to the removal", 12, 29, true},
		{"over the commit of the removal", 12, 30.5, false},
		{"over an absence", 12, 45, false},
		{"from within an absence", 35, 45, false},
		{"behind an absence", 42, 49, true},
		{"over a border", 42, 55, false},
		{"behind a border", 52, 60, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			if h.Existed(at(c.from), at(c.to)) != c.want {
				t.Errorf("from %v to %v: want %v", c.from, c.to, c.want)
			}
		})
	}
}
