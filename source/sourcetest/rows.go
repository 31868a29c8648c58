package sourcetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func rowsOf(ids ...uint64) []Row {
	rows := make([]Row, len(ids))
	for i, id := range ids {
		rows[i] = Row{ID: id, Name: "n"}
	}
	return rows
}

func testPages(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	s := f.Source.Shard(spec(table))
	if p := Read(t, s, source.Query{Limit: 10}); len(p.Rows) != 0 || p.MaxID != 0 || p.More {
		t.Fatalf("an empty table has %d rows, highest id %d, more %t", len(p.Rows), p.MaxID, p.More)
	}
	var all []uint64
	for i := range uint64(25) {
		all = append(all, 3*i+1)
	}
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	f.Insert(t, table, rowsOf(backwards...)...)
	for _, test := range []struct {
		q    source.Query
		want []uint64
	}{
		{source.Query{Limit: 1}, all},
		{source.Query{Limit: 7}, all},
		{source.Query{Limit: 25}, all},
		{source.Query{Limit: 26}, all},
		{source.Query{After: 30, Limit: 10}, all[10:]},
		{source.Query{After: 73, Limit: 1}, nil},
		{source.Query{Through: 7, Limit: 10}, all[:3]},
		{source.Query{After: 4, Through: 12, Limit: 10}, all[2:4]},
		{source.Query{After: 10, Through: 12, Limit: 10}, nil},
		{source.Query{After: 9, Through: 10, Limit: 1}, all[3:4]},
	} {
		Same(t, readAll(t, s, test.q), test.want, "%+v", test.q)
		if p := Read(t, s, test.q); p.MaxID != 73 {
			t.Errorf("%+v: highest id %d", test.q, p.MaxID)
		}
	}
	if next, err := s.NextID(t.Context()); err != nil || next != 0 && next <= 73 {
		t.Errorf("next id %d, %v", next, err)
	}
	last := []uint64{f.HighestID - 1, f.HighestID}
	f.Insert(t, table, rowsOf(last...)...)
	Same(t, readAll(t, s, source.Query{After: 73, Limit: 1}), last, "the highest possible ids")
}

func testBudget(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	huge := strings.Repeat("h", 1<<20)
	var rows []Row
	var want []uint64
	for id := uint64(1); id <= 103; id++ {
		rows, want = append(rows, Row{ID: id, Name: strings.Repeat("x", 1000)}), append(want, id)
	}
	rows[100].Name, rows[101].Name = huge, huge
	f.Insert(t, table, rows...)
	s := f.Source.Shard(spec(table))
	for _, budget := range []int{1, 10_000, 10 << 20} {
		q := source.Query{Limit: 1000, MaxBytes: budget}
		Same(t, readAll(t, s, q), want, "a budget of %d", budget)
		if p := Read(t, s, q); len(p.Rows) > 1+budget/1000 && budget < 1<<20 {
			t.Errorf("budget %d: a page of %d rows", budget, len(p.Rows))
		}
	}
	p := Read(t, s, source.Query{After: 100, Limit: 100, MaxBytes: 1000})
	if len(p.Rows) != 1 || !p.More || string(value(t, p, p.Rows[0], "name")) != huge {
		t.Errorf("a row larger than the budget comes with %d others, more %t", len(p.Rows)-1, p.More)
	}
}

func testRanges(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(2, 4, 6, 100, 102, 104, 200)...)
	s := f.Source.Shard(spec(table))
	ranges := []source.Range{{First: 1, Last: 5}, {First: 7, Last: 7}, {First: 100, Last: 104}, {First: 1 << 63, Last: math.MaxUint64}}
	want := []uint64{2, 4, 100, 102, 104}
	p := Read(t, s, source.Query{Ranges: ranges, Limit: 100})
	if got := IDs(p); !slices.Equal(got, want) || p.MaxID != 200 {
		t.Errorf("rows %d, want %d, highest id %d", got, want, p.MaxID)
	}
	for _, uncommitted := range []bool{false, true} {
		var ids source.IDs
		if err := s.ReadIDs(t.Context(), ranges, uncommitted, 100, &ids); err != nil || !slices.Equal(ids.List, want) || ids.Cut || ids.Now.IsZero() || ids.Server == "" {
			t.Errorf("ids %+v, %v; want %d", ids, err, want)
		}
		if err := s.ReadIDs(t.Context(), ranges, uncommitted, 3, &ids); err != nil || !slices.Equal(ids.List, want[:3]) || !ids.Cut {
			t.Errorf("ids %+v, %v; want a cut after %d", ids, err, want[:3])
		}
	}
}

func testColumns(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	empty, emoji := "", "dziękuję 😀"
	f.Insert(t, table, Row{ID: 7, Name: "n"}, Row{ID: 8, Note: &empty}, Row{ID: 9, Note: &emoji})
	sp := spec(table)
	sp.Key, sp.Deleted = []string{"note", "name"}, "note"
	p := Read(t, f.Source.Shard(sp), source.Query{Limit: 9})
	c := p.Columns
	name := func(i int) string { return c.List[i].Name }
	if name(c.ID) != "id" || len(c.Key) != 2 || name(c.Key[0]) != "note" || name(c.Key[1]) != "name" ||
		name(c.Created) != "created" || c.Modified != -1 || name(c.Deleted) != "note" {
		t.Fatalf("columns %+v", c)
	}
	if c.List[c.ID].Kind != source.Int || c.List[c.Key[0]].Kind != source.Text || string(p.Rows[0].Values[c.ID]) != "7" {
		t.Errorf("columns %+v, the id is %q", c.List, p.Rows[0].Values[c.ID])
	}
	if at, ok := c.List[c.Created].Time(p.Rows[0].Values[c.Created], nil); !ok || c.List[c.Created].Resolution() > time.Millisecond {
		t.Errorf("created %v with a resolution of %v", at, c.List[c.Created].Resolution())
	}
	note := func(i int) []byte { return value(t, p, p.Rows[i], "note") }
	if note(0) != nil || note(1) == nil || len(note(1)) != 0 || string(note(2)) != emoji {
		t.Errorf("notes %q, %q, %q", note(0), note(1), note(2))
	}
	for _, test := range []struct {
		fields, exclude []string
		want            string
	}{
		{nil, nil, "id name note created"},
		{[]string{}, nil, "id created"},
		{[]string{"name", "id"}, nil, "id name created"},
		// CREATED is read for its role.
		{nil, []string{"note", "created"}, "id name created"},
	} {
		sp := spec(table)
		sp.Fields, sp.Exclude = test.fields, test.exclude
		p := Read(t, f.Source.Shard(sp), source.Query{Limit: 1})
		var names []string
		for _, column := range p.Columns.List {
			names = append(names, column.Name)
		}
		if strings.Join(names, " ") != test.want || len(p.Columns.Key) != 1 || p.Columns.Key[0] != p.Columns.ID {
			t.Errorf("fields %q without %q give %q, want %s with the id as key", test.fields, test.exclude, names, test.want)
		}
	}
}

func testMasks(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, Row{ID: 1, Name: "4111-2222-3333-ÄÖÜß"}, Row{ID: 2, Name: "short"})
	for name, c := range map[string]struct {
		mask source.Mask
		want []string
	}{
		"redact": {source.Redact(), []string{"****", "****"}},
		"last4":  {source.Last4(), []string{"****ÄÖÜß", "****"}},
		"sha256": {source.SHA256("a key"), []string{"0bfe16358a74a9e664473e77177ef4a6b6b3d822988094e3089a230a7b2869f0", ""}},
	} {
		sp := spec(table)
		sp.Masks = map[string]source.Mask{"name": c.mask, "note": c.mask}
		p := Read(t, f.Source.Shard(sp), source.Query{Limit: 9})
		for i, want := range c.want {
			got := value(t, p, p.Rows[i], "name")
			if want != "" && string(got) != want || string(got) == "short" || value(t, p, p.Rows[i], "note") != nil {
				t.Errorf("%s makes %q of row %d, want %q, and nothing of NULL", name, got, i+1, want)
			}
		}
		for _, column := range p.Columns.List {
			if column.Name == "name" && column.Kind != source.Text {
				t.Errorf("%s: %+v", name, column)
			}
		}
	}
}

// Those of rows that do not match are in brackets.
func filtered(p *source.Page) string {
	var b strings.Builder
	for _, r := range p.Rows {
		id := string(r.Values[p.Columns.ID])
		if r.Filtered {
			id = "[" + id + "]"
		}
		b.WriteString(id + " ")
	}
	return strings.TrimSpace(b.String())
}

func testFilter(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	draft, done := "draft", "done"
	f.Insert(t, table, Row{ID: 1, Name: "a", Note: &done}, Row{ID: 2, Name: "b", Note: &draft}, Row{ID: 3, Name: "c"}, Row{ID: 5, Name: "d", Note: &done})
	sp := spec(table)
	sp.Filter = "note <> 'draft'"
	s := f.Source.Shard(sp)
	for what, c := range map[string]struct {
		query source.Query
		want  string
	}{
		"a page":              {source.Query{Limit: 9}, "1 [2] [3] 5"},
		"a page that is full": {source.Query{After: 1, Limit: 2}, "[2] [3]"},
		"ranges":              {source.Query{Ranges: []source.Range{{First: 2, Last: 4}, {First: 5, Last: 5}}, Limit: 9}, "[2] [3] 5"},
		"keys":                {source.Query{Keys: [][][]byte{{[]byte("2")}, {[]byte("5")}}, Limit: 9}, "[2] 5"},
	} {
		if got := filtered(Read(t, s, c.query)); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	// The next page of the same memory begins with rows that match.
	p := Read(t, s, source.Query{Limit: 9})
	if err := s.Read(t.Context(), source.Query{Ranges: []source.Range{{First: 5, Last: 5}}, Limit: 1}, p); err != nil || filtered(p) != "5" {
		t.Errorf("a page that is used again: %s, %v", filtered(p), err)
	}
	f.AddColumn(t, table, "extra")
	if got := filtered(Read(t, s, source.Query{Limit: 9})); got != "1 [2] [3] 5" {
		t.Errorf("with another column: %s", got)
	}
	for what, change := range map[string]func(*source.Spec){
		"masked":           func(sp *source.Spec) { sp.Masks = map[string]source.Mask{"note": source.Redact()} },
		"left out":         func(sp *source.Spec) { sp.Exclude = []string{"note"} },
		"not among fields": func(sp *source.Spec) { sp.Fields = []string{"name"} },
	} {
		sp := sp
		change(&sp)
		p := Read(t, f.Source.Shard(sp), source.Query{Limit: 9})
		if got := filtered(p); got != "1 [2] [3] 5" || slices.ContainsFunc(p.Rows[1].Values, func(v []byte) bool { return string(v) == draft }) {
			t.Errorf("the column is %s: %s, values %q", what, got, p.Rows[1].Values)
		}
	}
}

// testBadFilter: what is not one condition on the row is refused, before a row is read.
func testBadFilter(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(1, 2, 3)...)
	for _, condition := range []string{
		"note =", "absent = 1", "note = 'a'; DROP TABLE " + table, "note = 'a' -- ", "note = 'a' /* ", "1) OR (1", "note = 'a", "count(*) > 1", "max(id) > 1",
		"row_number() OVER () > 1", "(note, name)", "note IN (SELECT 1)", "1 = 1 ORDER BY id DESC", "1 = 1 LIMIT 1", "no_such_function(id)",
	} {
		sp := spec(table)
		sp.Filter = condition
		Refused(t, f.Source.Shard(sp), source.ErrUnfit, "FILTER")
	}
	Holds(t, f.Source.Shard(spec(table)), 3)
}

func testAlter(t *testing.T, f Fixture) {
	sp := spec(f.NewTable(t))
	all, few := f.Source.Shard(sp), f.Source.Shard(source.Spec{Table: sp.Table, ID: "id", Fields: []string{"name"}})
	role := f.Source.Shard(source.Spec{Table: sp.Table, ID: "id", Deleted: "note"})
	columns, outside := Read(t, all, source.Query{Limit: 1}).Columns, Read(t, few, source.Query{Limit: 1}).Columns
	Read(t, role, source.Query{Limit: 1})
	f.Insert(t, sp.Table, Row{ID: 1, Name: "a"})
	if p := Read(t, all, source.Query{Limit: 1}); p.Columns != columns {
		t.Error("another pointer although the table is the same")
	}
	drain := func() (log string) {
		if f.Log != nil {
			log = f.Log.Drain()
		}
		return log
	}
	drain()
	f.AddColumn(t, sp.Table, "extra")
	p := Read(t, all, source.Query{Limit: 9})
	if p.Columns == columns || value(t, p, p.Rows[0], "extra") != nil || string(value(t, p, p.Rows[0], "name")) != "a" {
		t.Fatalf("after adding a column: %v", p.Columns.List)
	}
	f.DropColumn(t, sp.Table, "extra")
	f.DropColumn(t, sp.Table, "note")
	for range 3 {
		if p = Read(t, all, source.Query{Limit: 9}); len(p.Columns.List) != len(columns.List)-1 || string(value(t, p, p.Rows[0], "name")) != "a" {
			t.Fatalf("after dropping two columns: %v", p.Columns.List)
		}
	}
	if log := drain(); f.Log != nil && (strings.Count(log, "columns changed") != 2 || !strings.Contains(log, "added=extra") || !strings.Contains(log, "dropped=note")) {
		t.Errorf("two changes are logged as %q", log)
	}
	// A table in memory makes its columns again whenever it is altered.
	if p := Read(t, few, source.Query{Limit: 9}); f.Log != nil && (p.Columns != outside || drain() != "") {
		t.Error("a column outside of the spec makes another pointer, or is logged")
	}
	Refused(t, role, source.ErrMissing, "DELETED")
	f.AddColumn(t, sp.Table, "note")
	Holds(t, role, 1)
}

func testMissing(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	for _, change := range []func(*source.Spec){
		func(sp *source.Spec) { sp.Table += "_absent" },
		func(sp *source.Spec) { sp.ID = "absent" },
		func(sp *source.Spec) { sp.Key = []string{"name", "absent"} },
		func(sp *source.Spec) { sp.Created = "absent" },
		func(sp *source.Spec) { sp.Modified = "absent" },
		func(sp *source.Spec) { sp.Deleted = "absent" },
		func(sp *source.Spec) { sp.Fields = []string{"absent"} },
		func(sp *source.Spec) { sp.Exclude = []string{"absent"} },
		func(sp *source.Spec) { sp.Masks = map[string]source.Mask{"absent": source.Redact()} },
	} {
		sp := spec(table)
		change(&sp)
		Refused(t, f.Source.Shard(sp), source.ErrMissing, "absent")
	}
	must.Fail(t, must.Err(f.Source.Shard(spec(table+"_absent")).NextID(t.Context())), source.ErrMissing)
}

func testConcurrent(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(1, 2, 3, 4, 5)...)
	why := errors.New("the reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			var p source.Page
			var last time.Time
			s := f.Source.Shard(spec(table))
			for range 5 {
				if err := s.Read(ctx, source.Query{Limit: 9}, &p); !errors.Is(err, why) {
					t.Errorf("error %v, want the cause", err)
				}
				if err := s.Read(t.Context(), source.Query{Limit: 9}, &p); err != nil || len(p.Rows) != 5 || p.Now.Before(last) {
					t.Errorf("%d rows, clock %v after %v, %v", len(p.Rows), p.Now, last, err)
				}
				last = p.Now
			}
		})
	}
	wg.Wait()
}

func testUncommitted(t *testing.T, f Fixture) {
	if f.Uncommitted == nil {
		t.Skip("readers and writers of this database exclude each other")
	}
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(1)...)
	commit := f.Uncommitted(t, table, Row{ID: 2, Name: "open"})
	s := f.Source.Shard(spec(table))
	f.Insert(t, table, rowsOf(3)...)
	Same(t, readAll(t, s, source.Query{Limit: 9}), []uint64{1, 3}, "while id 2 is not committed")
	for uncommitted, want := range map[bool][]uint64{false: {1, 3}, true: {1, 2, 3}} {
		var ids source.IDs
		if err := s.ReadIDs(t.Context(), []source.Range{{First: 1, Last: 9}}, uncommitted, 9, &ids); err != nil || !slices.Equal(ids.List, want) {
			t.Errorf("ids %d, uncommitted %t: %v, want %d", ids.List, uncommitted, err, want)
		}
	}
	commit()
	if got := readAll(t, s, source.Query{Limit: 9}); len(got) != 3 {
		t.Errorf("got %d after the commit", got)
	}
}
