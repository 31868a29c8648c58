package sourcetest

import (
	"errors"
	"strings"
	"testing"

	"bridge/source"
)

// filtered returns the ids of a page, those of rows that do not match in brackets.
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
		if got := filtered(read(t, s, c.query)); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	// The next page of the same memory begins with rows that match.
	p := read(t, s, source.Query{Limit: 9})
	if err := s.Read(t.Context(), source.Query{Ranges: []source.Range{{First: 5, Last: 5}}, Limit: 1}, p); err != nil || filtered(p) != "5" {
		t.Errorf("a page that is used again: %s, %v", filtered(p), err)
	}
	f.AddColumn(t, table, "extra")
	if got := filtered(read(t, s, source.Query{Limit: 9})); got != "1 [2] [3] 5" {
		t.Errorf("with another column: %s", got)
	}
}

func testFilterHidden(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	secret := "secret"
	f.Insert(t, table, Row{ID: 1, Name: "a", Note: &secret}, Row{ID: 2, Name: "b"})
	for what, change := range map[string]func(*source.Spec){
		"masked":           func(sp *source.Spec) { sp.Masks = map[string]source.Mask{"note": source.Redact()} },
		"left out":         func(sp *source.Spec) { sp.Exclude = []string{"note"} },
		"not among fields": func(sp *source.Spec) { sp.Fields = []string{"name"} },
	} {
		sp := spec(table)
		sp.Filter = "note = 'secret'"
		change(&sp)
		p := read(t, f.Source.Shard(sp), source.Query{Limit: 9})
		if got := filtered(p); got != "1 [2]" {
			t.Errorf("%s: %s", what, got)
		}
		for _, v := range p.Rows[0].Values {
			if string(v) == secret {
				t.Errorf("%s: the value is read", what)
			}
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
		var p source.Page
		err := f.Source.Shard(sp).Read(t.Context(), source.Query{Limit: 9}, &p)
		if !errors.Is(err, source.ErrUnfit) || errors.Is(err, source.ErrMissing) || !strings.Contains(err.Error(), "FILTER") {
			t.Errorf("%s: %v, want an error that names FILTER", condition, err)
		}
	}
	if p := read(t, f.Source.Shard(spec(table)), source.Query{Limit: 9}); len(p.Rows) != 3 {
		t.Errorf("%d rows are left", len(p.Rows))
	}
}
