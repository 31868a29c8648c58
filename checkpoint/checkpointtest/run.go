package checkpointtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint"
)

// Reconcile makes a run that differs for every n and fills all fields.
func Reconcile(n int) checkpoint.Run {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC).Add(time.Duration(n) * time.Second)
	u := uint64(n) * 100
	return checkpoint.Run{
		Started: at, Ended: at.Add(time.Minute), Clock: at.Add(time.Second), Bound: u + 1, After: u + 2, Server: fmt.Sprint("server-", n),
		Scanned: u + 3, Entities: u + 4, Added: u + 5, Modified: u + 6, Deleted: u + 7, Missed: u + 8, Absent: u + 9, Judged: u + 10,
		Guard: "too many", Allowed: n%2 == 0, Verified: at.Add(-time.Hour),
	}
}

func mustSaveRun(t *testing.T, s checkpoint.Store, k checkpoint.Key, run checkpoint.Run, absent ...string) {
	t.Helper()
	var entities [][]byte
	for _, entity := range absent {
		entities = append(entities, []byte(entity))
	}
	if err := s.SaveRun(t.Context(), k, run, entities); err != nil {
		t.Fatalf("SaveRun: %v", err)
	}
	for _, entity := range entities {
		clear(entity)
	}
}

// mustRun fails the test unless a shard has this run and these entities that wait.
func mustRun(t *testing.T, s checkpoint.Store, k checkpoint.Key, want checkpoint.Run, absent ...string) {
	t.Helper()
	if got, err := s.LoadRun(t.Context(), k); err != nil || got != want {
		t.Fatalf("the run is\n%+v, %v, want\n%+v", got, err, want)
	}
	for from := range len(absent) + 2 {
		for _, limit := range []int{1, 2, 1000} {
			got, err := s.Absent(t.Context(), k, uint64(from), limit, nil)
			if err != nil {
				t.Fatal(err)
			}
			left := absent[min(from, len(absent)):]
			left = left[:min(limit, len(left))]
			if !slices.EqualFunc(got, left, func(a []byte, b string) bool { return string(a) == b }) {
				t.Fatalf("%d of those who wait from %d on are %q, want %q", limit, from, got, left)
			}
		}
	}
}

func mustMissRun(t *testing.T, s checkpoint.Store, k checkpoint.Key) {
	t.Helper()
	if got, err := s.LoadRun(t.Context(), k); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatalf("LoadRun of %v returns %+v, %v, want ErrNotFound", k, got, err)
	}
	if got, err := s.Absent(t.Context(), k, 0, 10, nil); err != nil || len(got) > 0 {
		t.Fatalf("of a run that there is not %q wait, %v", got, err)
	}
}

func runs(t *testing.T, f Fixture) {
	mustMissRun(t, f.Store, key(1))
	mustSaveRun(t, f.Store, key(1), Reconcile(1), "b", "a", "b")
	mustRun(t, f.Store, key(1), Reconcile(1), "b", "a", "b")
	mustMiss(t, f.Store, key(1))
	if entries, err := f.Store.List(t.Context()); err != nil || len(entries) > 0 {
		t.Errorf("List returns %v, %v of a shard that has only a run", entries, err)
	}
	mustSaveRun(t, f.Store, key(1), Reconcile(2))
	mustRun(t, f.Store, key(1), Reconcile(2), "b", "a", "b")
	mustSave(t, f.Store, key(1), State(1))
	mustSaveRun(t, f.Store, key(1), Reconcile(3), "c")
	mustRun(t, f.Store, key(1), Reconcile(3), "b", "a", "b", "c")
	mustHold(t, f.Store, key(1), State(1))
	mustMissRun(t, f.Store, key(2))
	if f.Reopen != nil {
		f.Store = f.Reopen(t)
		mustRun(t, f.Store, key(1), Reconcile(3), "b", "a", "b", "c")
	}
	for name, entity := range map[string]string{"an empty one": "", "a large one": strings.Repeat("x", checkpoint.MaxEntity+1)} {
		if err := f.Store.SaveRun(t.Context(), key(1), Reconcile(4), [][]byte{[]byte("d"), []byte(entity)}); err == nil {
			t.Errorf("SaveRun with %s returns nil", name)
		}
	}
	bad := Reconcile(4)
	bad.Clock = time.Unix(1<<40, 0)
	if err := f.Store.SaveRun(t.Context(), key(1), bad, nil); err == nil {
		t.Error("SaveRun with a time far ahead returns nil")
	}
	if err := f.Store.SaveRun(t.Context(), checkpoint.Key{Stream: "a"}, Reconcile(4), nil); err == nil {
		t.Error("SaveRun of a nameless shard returns nil")
	}
	mustRun(t, f.Store, key(1), Reconcile(3), "b", "a", "b", "c")
	ended := Reconcile(5)
	ended.Absent = 0
	mustSaveRun(t, f.Store, key(1), ended)
	mustRun(t, f.Store, key(1), ended)
	mustSaveRun(t, f.Store, key(1), checkpoint.Run{}, "e")
	mustRun(t, f.Store, key(1), checkpoint.Run{}, "e")
}

// everything gives a shard one of each thing that is kept.
func everything(t *testing.T, s checkpoint.Store, k checkpoint.Key, n int) {
	state := State(n)
	state.View = []checkpoint.Change{change("a", Known(checkpoint.Live, 1, n)), change("b", Known(checkpoint.Gone, 2, n))}
	state.Given, state.Journals = ranges(1, 5), []*checkpoint.Journal{Journal(n)}
	mustSave(t, s, k, state)
	mustSaveRun(t, s, k, checkpoint.Run{})
	mustSaveRun(t, s, k, Reconcile(n), "b")
}

func mustHoldEverything(t *testing.T, s checkpoint.Store, k checkpoint.Key, n int) {
	t.Helper()
	state := State(n)
	state.Journals = []*checkpoint.Journal{Journal(n)}
	mustHold(t, s, k, state)
	mustKnow(t, s, k, model{"a": Known(checkpoint.Live, 1, n), "b": Known(checkpoint.Gone, 2, n)})
	mustRun(t, s, k, Reconcile(n), "b")
}

func allDeleted(t *testing.T, f Fixture) {
	other := checkpoint.Key{Stream: "others", Shard: "a"}
	everything(t, f.Store, other, 2)
	everything(t, f.Store, key(1), 1)
	mustSaveRun(t, f.Store, key(3), Reconcile(3))
	if n, err := f.Store.Delete(t.Context(), key(1).Stream); err != nil || n != 1 {
		t.Errorf("Delete returns %d, %v, want the one state", n, err)
	}
	for range 2 {
		mustMiss(t, f.Store, key(1))
		mustKnow(t, f.Store, key(1), model{}, "a", "b")
		mustGiveUp(t, f.Store, nil)
		mustMissRun(t, f.Store, key(1))
		mustMissRun(t, f.Store, key(3))
		mustHoldEverything(t, f.Store, other, 2)
		if f.Reopen != nil {
			f.Store = f.Reopen(t)
		}
	}
	mustSave(t, f.Store, key(1), State(5))
	mustHold(t, f.Store, key(1), State(5))
	mustKnow(t, f.Store, key(1), model{}, "a", "b")
	mustGiveUp(t, f.Store, nil)
	mustMissRun(t, f.Store, key(1))
}

func viewSurvives(t *testing.T, f Fixture) {
	for round := range 3 {
		everything(t, f.Store, key(1), round)
		f.Store = f.Reopen(t)
		mustHoldEverything(t, f.Store, key(1), round)
		mustGiveUp(t, f.Store, ranges(1, 5))
	}
}
