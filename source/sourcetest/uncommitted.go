package sourcetest

import (
	"errors"
	"slices"
	"testing"

	"bridge/source"
)

// newChanged returns a table with three rows, and a reader of it.
func newChanged(t *testing.T, f Fixture) (table string, s source.Shard, shows bool) {
	table = f.NewKeyed(t)
	s = f.Source.Shard(keyed(table))
	f.InsertKeyed(t, table, KeyedRow{ID: 1, Name: "a", Modified: second + "1.000"}, KeyedRow{ID: 2, Name: "b", Modified: second + "2.000"},
		KeyedRow{ID: 3, Name: "c"}, KeyedRow{ID: 7, Name: "d", Modified: second + "1.000"})
	traits, err := s.Traits(t.Context())
	if err != nil || traits.Server == "" {
		t.Fatalf("traits %+v, %v", traits, err)
	}
	return table, s, traits.Uncommitted
}

// changesOf returns what a read shows as "id at MODIFIED".
func changesOf(t *testing.T, s source.Shard, q source.ChangeQuery) (list []source.Cursor) {
	t.Helper()
	var c source.Changes
	if err := s.ReadChanges(t.Context(), q, &c); err != nil {
		t.Fatal(err)
	}
	if c.Now.IsZero() || c.Server == "" || c.More != (len(c.List) == q.Limit) {
		t.Errorf("%d changes of %d, clock %v, server %q, more %t", len(c.List), q.Limit, c.Now, c.Server, c.More)
	}
	return c.List
}

func testChangesOfIDs(t *testing.T, f Fixture) {
	_, s, shows := newChanged(t, f)
	q := source.ChangeQuery{Ranges: []source.Range{{First: 2, Last: 3}, {First: 5, Last: 9}}, Limit: 9}
	if !shows {
		if err := s.ReadChanges(t.Context(), q, new(source.Changes)); !errors.Is(err, source.ErrUnfit) {
			t.Errorf("where nothing uncommitted is shown: %v", err)
		}
		return
	}
	want := []source.Cursor{{Modified: second + "2.000", ID: 2}, {Modified: second + "1.000", ID: 7}}
	if got := changesOf(t, s, q); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	q.Limit = 1
	if got := changesOf(t, s, q); !slices.Equal(got, want[:1]) {
		t.Errorf("got %v, want %v", got, want[:1])
	}
}

func testUncommittedChanges(t *testing.T, f Fixture) {
	table, s, shows := newChanged(t, f)
	if shows != (f.TouchOpen != nil) {
		t.Fatalf("the traits say %t", shows)
	}
	if !shows {
		return
	}
	all := func(uncommitted bool) []source.Cursor {
		byTime := changesOf(t, s, source.ChangeQuery{Uncommitted: uncommitted, Limit: 9})
		byID := changesOf(t, s, source.ChangeQuery{Uncommitted: uncommitted, Limit: 9, Ranges: []source.Range{{First: 1, Last: 9}}})
		if !slices.IsSortedFunc(byTime, func(a, b source.Cursor) int { return compareCursors(a, b) }) || len(byTime) != len(byID) {
			t.Errorf("in the order of MODIFIED %v, by id %v", byTime, byID)
		}
		return byID
	}
	before := []source.Cursor{{Modified: second + "1.000", ID: 1}, {Modified: second + "2.000", ID: 2}, {Modified: second + "1.000", ID: 7}}
	during := []source.Cursor{{Modified: second + "5.000", ID: 1}, {Modified: second + "2.000", ID: 2}, {Modified: second + "1.000", ID: 7}}
	for _, commit := range []bool{false, true} {
		end := f.TouchOpen(t, table, 1, second+"5.000")
		if got := all(true); !slices.Equal(got, during) {
			t.Errorf("uncommitted %v, want %v", got, during)
		}
		if got := all(false); !slices.Equal(got, before) {
			t.Errorf("committed %v, want %v", got, before)
		}
		end(commit)
		want := before
		if commit {
			want = during
		}
		for _, uncommitted := range []bool{true, false} {
			if got := all(uncommitted); !slices.Equal(got, want) {
				t.Errorf("after its end (commit %t), uncommitted %t: %v, want %v", commit, uncommitted, got, want)
			}
		}
	}
}

func compareCursors(a, b source.Cursor) int {
	switch {
	case a.Modified < b.Modified, a.Modified == b.Modified && a.ID < b.ID:
		return -1
	case a == b:
		return 0
	}
	return 1
}
