package sourcetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/source"
)

func testClock(t *testing.T, f Fixture) {
	s := f.Source.Shard(spec(f.NewTable(t)))
	var last time.Time
	for range 5 {
		p := read(t, s, source.Query{Limit: 1})
		if p.Now.Before(last) || p.Now.Location() != time.UTC {
			t.Fatalf("clock %v after %v", p.Now, last)
		}
		last = p.Now
	}
}

func testNull(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	empty, emoji := "", "dziękuję 😀"
	f.Insert(t, table, Row{ID: 1, Note: nil}, Row{ID: 2, Note: &empty}, Row{ID: 3, Note: &emoji})
	p := read(t, f.Source.Shard(spec(table)), source.Query{Limit: 10})
	notes := make([][]byte, len(p.Rows))
	for i, r := range p.Rows {
		notes[i] = value(t, p, r, "note")
	}
	if len(notes) != 3 || notes[0] != nil || notes[1] == nil || len(notes[1]) != 0 || string(notes[2]) != emoji {
		t.Fatalf("notes %q", notes)
	}
}

func testColumns(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, Row{ID: 7, Name: "n"})
	sp := spec(table)
	sp.Key, sp.Deleted = []string{"note", "name"}, "note"
	p := read(t, f.Source.Shard(sp), source.Query{Limit: 1})
	c := p.Columns
	name := func(i int) string { return c.List[i].Name }
	if name(c.ID) != "id" || len(c.Key) != 2 || name(c.Key[0]) != "note" || name(c.Key[1]) != "name" ||
		name(c.Created) != "created" || c.Modified != -1 || name(c.Deleted) != "note" {
		t.Fatalf("columns %+v", c)
	}
	for i, want := range map[int]source.Kind{c.ID: source.Int, c.Key[0]: source.Text, c.Key[1]: source.Text} {
		if c.List[i].Kind != want {
			t.Errorf("%s is of kind %d, want %d", name(i), c.List[i].Kind, want)
		}
	}
	if at, ok := c.List[c.Created].Time(p.Rows[0].Values[c.Created], nil); !ok || c.List[c.Created].Resolution() > time.Millisecond {
		t.Errorf("created %v with a resolution of %v", at, c.List[c.Created].Resolution())
	}
	if got := string(p.Rows[0].Values[c.ID]); got != "7" {
		t.Errorf("the value of the id is %q", got)
	}
	p = read(t, f.Source.Shard(spec(table)), source.Query{Limit: 1})
	if len(p.Columns.Key) != 1 || p.Columns.Key[0] != p.Columns.ID {
		t.Errorf("without KEY the key is %v, want the id", p.Columns.Key)
	}
}

func testFields(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	for _, test := range []struct {
		fields []string
		want   int
	}{{nil, 4}, {[]string{}, 2}, {[]string{"name"}, 3}, {[]string{"name", "id"}, 3}} {
		sp := spec(table)
		sp.Fields = test.fields
		if p := read(t, f.Source.Shard(sp), source.Query{Limit: 1}); len(p.Columns.List) != test.want {
			t.Errorf("fields %q give %v", test.fields, p.Columns.List)
		}
	}
}

func testExclude(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	sp := spec(table)
	sp.Exclude = []string{"note", sp.Created}
	p := read(t, f.Source.Shard(sp), source.Query{Limit: 1})
	var names []string
	for _, c := range p.Columns.List {
		names = append(names, c.Name)
	}
	// CREATED is read for its role.
	if !slices.Contains(names, sp.Created) || slices.Contains(names, "note") || len(names) != 3 {
		t.Errorf("without note there are %q", names)
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
		"sha256": {source.SHA256("a key"), []string{
			"0bfe16358a74a9e664473e77177ef4a6b6b3d822988094e3089a230a7b2869f0", "",
		}},
	} {
		sp := spec(table)
		sp.Masks = map[string]source.Mask{"name": c.mask, "note": c.mask}
		s := f.Source.Shard(sp)
		p := read(t, s, source.Query{Limit: 9})
		for i, want := range c.want {
			got := value(t, p, p.Rows[i], "name")
			if want != "" && string(got) != want || string(got) == "short" {
				t.Errorf("%s makes %q of row %d, want %q", name, got, i+1, want)
			}
			if value(t, p, p.Rows[i], "note") != nil {
				t.Errorf("%s makes something of NULL", name)
			}
		}
		for _, column := range p.Columns.List {
			if column.Name == "name" && column.Kind != source.Text {
				t.Errorf("%s: %+v", name, column)
			}
		}
	}
}

func testPointer(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	s := f.Source.Shard(spec(table))
	first := read(t, s, source.Query{Limit: 1}).Columns
	f.Insert(t, table, rowsOf(1, 2)...)
	for range 3 {
		if p := read(t, s, source.Query{Limit: 1}); p.Columns != first {
			t.Fatal("another pointer although the table is the same")
		}
	}
}

func testAlter(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, Row{ID: 1, Name: "a"})
	s := f.Source.Shard(spec(table))
	first := read(t, s, source.Query{Limit: 9}).Columns
	f.AddColumn(t, table, "extra")
	p := read(t, s, source.Query{Limit: 9})
	if p.Columns == first || value(t, p, p.Rows[0], "extra") != nil || string(value(t, p, p.Rows[0], "name")) != "a" {
		t.Fatalf("after adding a column: %v", p.Columns.List)
	}
	f.DropColumn(t, table, "extra")
	f.DropColumn(t, table, "note")
	for range 3 {
		if p = read(t, s, source.Query{Limit: 9}); len(p.Columns.List) != len(first.List)-1 || string(value(t, p, p.Rows[0], "name")) != "a" {
			t.Fatalf("after dropping two columns: %v", p.Columns.List)
		}
	}
	if f.Log == nil {
		return
	}
	if log := f.Log.Drain(); strings.Count(log, "columns changed") != 2 || !strings.Contains(log, "added=extra") || !strings.Contains(log, "dropped=note") {
		t.Errorf("two changes are logged as %q", log)
	}
}

func testDroppedRole(t *testing.T, f Fixture) {
	sp := spec(f.NewTable(t))
	sp.Deleted = "note"
	f.Insert(t, sp.Table, Row{ID: 1, Name: "a"})
	s := f.Source.Shard(sp)
	read(t, s, source.Query{Limit: 9})
	f.DropColumn(t, sp.Table, "note")
	if err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page)); !errors.Is(err, source.ErrMissing) || !strings.Contains(err.Error(), "DELETED") {
		t.Errorf("without the column: %v", err)
	}
	f.AddColumn(t, sp.Table, "note")
	if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
		t.Errorf("after the repair: %d rows", len(p.Rows))
	}
}

func testOtherColumns(t *testing.T, f Fixture) {
	if f.Log == nil {
		t.Skip("this source makes its columns again whenever the table is altered")
	}
	sp := spec(f.NewTable(t))
	sp.Fields = []string{"name"}
	s := f.Source.Shard(sp)
	first := read(t, s, source.Query{Limit: 9}).Columns
	f.DropColumn(t, sp.Table, "note")
	f.AddColumn(t, sp.Table, "extra")
	if p := read(t, s, source.Query{Limit: 9}); p.Columns != first {
		t.Error("another pointer")
	}
	if log := f.Log.Drain(); strings.Contains(log, "columns changed") {
		t.Errorf("log %q", log)
	}
}

// refused checks that reading what sp names fails with want and names what is wrong.
func refused(t *testing.T, f Fixture, sp source.Spec, want error, name string) {
	t.Helper()
	var p source.Page
	err := f.Source.Shard(sp).Read(t.Context(), source.Query{Limit: 1}, &p)
	if !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
		t.Fatalf("error %v, want %v that names %q", err, want, name)
	}
}

func testMissingTable(t *testing.T, f Fixture) {
	sp := spec(f.NewTable(t) + "_gone")
	refused(t, f, sp, source.ErrMissing, sp.Table)
	if _, err := f.Source.Shard(sp).NextID(t.Context()); !errors.Is(err, source.ErrMissing) {
		t.Fatalf("next id: error %v", err)
	}
}

func testMissingColumn(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	for _, change := range []func(*source.Spec){
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
		refused(t, f, sp, source.ErrMissing, "absent")
	}
}

func testNextID(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(1, 2, 41)...)
	next, err := f.Source.Shard(spec(table)).NextID(t.Context())
	if err != nil || next != 0 && next <= 41 {
		t.Fatalf("next id %d, %v", next, err)
	}
}

func testCancel(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(1, 2)...)
	s := f.Source.Shard(spec(table))
	why := errors.New("the reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	var p source.Page
	if err := s.Read(ctx, source.Query{Limit: 1}, &p); !errors.Is(err, why) {
		t.Fatalf("error %v, want the cause", err)
	}
	if got, _ := readAll(t, s, source.Query{Limit: 9}); len(got) != 2 {
		t.Fatalf("got %d", got)
	}
}

func testConcurrent(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(1, 2, 3, 4, 5)...)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			var p source.Page
			s := f.Source.Shard(spec(table))
			for range 5 {
				if err := s.Read(t.Context(), source.Query{Limit: 9}, &p); err != nil || len(p.Rows) != 5 {
					t.Errorf("%d rows, %v", len(p.Rows), err)
				}
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
	p := read(t, s, source.Query{Limit: 9})
	if len(p.Rows) != 2 || p.Rows[1].ID != 3 {
		t.Fatalf("%d rows while id 2 is not committed", len(p.Rows))
	}
	commit()
	if got, _ := readAll(t, s, source.Query{Limit: 9}); len(got) != 3 {
		t.Fatalf("got %d after the commit", got)
	}
}
