package sourcetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func readChanges(t *testing.T, s source.Shard, q source.ChangeQuery) []source.Cursor {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var c source.Changes
	must.OK(t, s.ReadChanges(ctx, q, &c))
	inOrder := slices.IsSortedFunc(append([]source.Cursor{q.After}, c.List...), source.Cursor.Compare) || q.Ranges != nil
	if !inOrder || slices.Contains(c.List, q.After) || q.Through != "" && slices.ContainsFunc(c.List, func(at source.Cursor) bool { return at.Modified > q.Through }) {
		t.Fatalf("%v after %v, through %q", c.List, q.After, q.Through)
	}
	if c.Now.IsZero() || c.Now.Location() != time.UTC || c.Server == "" || c.More != (len(c.List) == q.Limit) || len(c.List) > q.Limit {
		t.Fatalf("%d changes of %d, clock %v, server %q, more %t", len(c.List), q.Limit, c.Now, c.Server, c.More)
	}
	return c.List
}

// AllChanges follows the cursor to the end.
func AllChanges(t *testing.T, s source.Shard, q source.ChangeQuery) (all []source.Cursor) {
	t.Helper()
	for {
		list := readChanges(t, s, q)
		all = append(all, list...)
		if len(list) < q.Limit {
			return all
		}
		q.After = list[len(list)-1]
	}
}

// ChangedIDs returns the ids of changes.
func ChangedIDs(list []source.Cursor) (ids []uint64) {
	for _, at := range list {
		ids = append(ids, at.ID)
	}
	return ids
}

const second = "2026-03-01 10:00:0"

func testChanges(t *testing.T, f Fixture) {
	table := f.NewKeyed(t)
	s := f.Source.Shard(keyed(table))
	if got := AllChanges(t, s, source.ChangeQuery{Limit: 5}); len(got) != 0 {
		t.Fatalf("an empty table has the changes %v", got)
	}
	f.InsertKeyed(t, table,
		KeyedRow{ID: 1, Name: "a", Modified: second + "2.000"}, KeyedRow{ID: 2, Name: "b", Modified: second + "1.000"},
		KeyedRow{ID: 3, Name: "c"}, KeyedRow{ID: 4, Name: "d", Modified: second + "2.000"}, KeyedRow{ID: 5, Name: "e", Modified: second + "2.001"},
		KeyedRow{ID: 6, Name: "f", Modified: second + "2.000"}, KeyedRow{ID: 7, Name: "g", Modified: second + "3.500"}, KeyedRow{ID: 8, Name: "h", Modified: second + "1.999"})
	whole := AllChanges(t, s, source.ChangeQuery{Limit: 100})
	if ids, want := ChangedIDs(whole), []uint64{2, 8, 1, 4, 6, 5, 7}; !slices.Equal(ids, want) {
		t.Fatalf("changes of %d, want %d", ids, want)
	}
	for limit := 1; limit < 9; limit++ {
		Same(t, AllChanges(t, s, source.ChangeQuery{Limit: limit}), whole, "%d at a time", limit)
	}
	column := Read(t, s, source.Query{Limit: 1}).Columns
	for i, from := range whole {
		for _, last := range whole[i:] {
			end := i + 1
			for end < len(whole) && whole[end].Modified <= last.Modified {
				end++
			}
			q := source.ChangeQuery{After: from, Through: last.Modified, Limit: 2}
			Same(t, AllChanges(t, s, q), whole[i+1:end], "after %v through %s", from, last.Modified)
		}
		// The row of an id has its MODIFIED in the same form, and so has a moment.
		p := Read(t, s, source.Query{After: from.ID - 1, Limit: 1})
		v := p.Rows[0].Values[p.Columns.Modified]
		at, ok := column.List[column.Modified].Time(v, nil)
		if string(v) != from.Modified || !ok || column.List[column.Modified].Text(at, nil) != from.Modified {
			t.Errorf("row %d is modified at %q, or %v, the change at %q", from.ID, v, at, from.Modified)
		}
	}
	// A moment without an id, as a look-back makes it, is a cursor like any other.
	Same(t, AllChanges(t, s, source.ChangeQuery{After: source.Cursor{Modified: whole[2].Modified}, Limit: 2}), whole[2:], "from %s", whole[2].Modified)
	q := source.ChangeQuery{After: whole[6], Limit: 9}
	f.Touch(t, table, 1, second+"4.000")
	if got := AllChanges(t, s, q); len(got) != 1 || got[0].ID != 1 {
		t.Errorf("after an update: %v", got)
	}
	f.Touch(t, table, 1, "")
	if got := AllChanges(t, s, q); len(got) != 0 {
		t.Errorf("after an update to NULL: %v", got)
	}
}

func testNoChanges(t *testing.T, f Fixture) {
	without, unindexed := keyed(f.NewKeyed(t)), spec(f.NewTable(t))
	s := f.Source.Shard(without)
	traits, err := s.Traits(t.Context())
	if err != nil || !traits.Writer || traits.WriterWhy == "" || !Read(t, s, source.Query{Limit: 1}).Columns.Indexed {
		t.Errorf("writer %t because %q, or no index, %v", traits.Writer, traits.WriterWhy, err)
	}
	without.Modified, unindexed.Modified = "", "created"
	for name, sp := range map[string]source.Spec{"without MODIFIED": without, "without an index": unindexed} {
		s := f.Source.Shard(sp)
		if err := s.ReadChanges(t.Context(), source.ChangeQuery{Limit: 1}, new(source.Changes)); !errors.Is(err, source.ErrUnfit) {
			t.Errorf("%s: %v", name, err)
		}
		if Read(t, s, source.Query{Limit: 1}).Columns.Indexed {
			t.Errorf("%s: indexed", name)
		}
	}
}

func testChangesInFlight(t *testing.T, f Fixture) {
	table := f.NewKeyed(t)
	s := f.Source.Shard(keyed(table))
	f.InsertKeyed(t, table, KeyedRow{ID: 1, Name: "a", Modified: second + "1.000"}, KeyedRow{ID: 2, Name: "b", Modified: second + "2.000"},
		KeyedRow{ID: 3, Name: "c"}, KeyedRow{ID: 7, Name: "d", Modified: second + "1.000"})
	some := source.ChangeQuery{Ranges: []source.Range{{First: 2, Last: 3}, {First: 5, Last: 9}}, Limit: 9}
	traits, err := s.Traits(t.Context())
	if err != nil || traits.Uncommitted != (f.TouchOpen != nil) {
		t.Fatalf("traits %+v, %v", traits, err)
	}
	if !traits.Uncommitted {
		must.Fail(t, s.ReadChanges(t.Context(), some, new(source.Changes)), source.ErrUnfit)
		return
	}
	before := []source.Cursor{{Modified: second + "1.000", ID: 1}, {Modified: second + "2.000", ID: 2}, {Modified: second + "1.000", ID: 7}}
	during := []source.Cursor{{Modified: second + "5.000", ID: 1}, before[1], before[2]}
	for limit := 1; limit <= 2; limit++ {
		some.Limit = limit
		Same(t, readChanges(t, s, some), before[1:1+limit], "changes of ids")
	}
	expect := func(when string, uncommitted bool, want []source.Cursor) {
		t.Helper()
		byTime := readChanges(t, s, source.ChangeQuery{Uncommitted: uncommitted, Limit: 9})
		byID := readChanges(t, s, source.ChangeQuery{Uncommitted: uncommitted, Limit: 9, Ranges: []source.Range{{First: 1, Last: 9}}})
		sorted := slices.SortedFunc(slices.Values(want), source.Cursor.Compare)
		if !slices.Equal(byID, want) || !slices.Equal(byTime, sorted) {
			t.Errorf("%s, uncommitted %t: by id %v, by MODIFIED %v, want %v", when, uncommitted, byID, byTime, want)
		}
	}
	for _, commit := range []bool{false, true} {
		end := f.TouchOpen(t, table, 1, second+"5.000")
		expect("while it is open", true, during)
		expect("while it is open", false, before)
		end(commit)
		want := before
		if commit {
			want = during
		}
		expect("after its end", true, want)
		expect("after its end", false, want)
	}
}
