package mysql_test

import (
	"errors"
	"strings"
	"testing"

	"bridge/source"
	"bridge/tests/testenv"
)

// altered is a table that a shard has read once with columns that are not read again by time.
func altered(t *testing.T, product testenv.Product, sp source.Spec) (base, source.Shard) {
	t.Helper()
	b := newBase(t, product.Shared(t), refreshNever)
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20), n INT, at DATETIME)")
	b.exec(t, "INSERT INTO t (name, n, at) VALUES ('a', 1, '2026-01-02 03:04:05')")
	sp.Table, sp.ID = "t", "id"
	s := b.source.Shard(sp)
	read(t, s, source.Query{Limit: 9})
	return b, s
}

func TestAlteredTable(t *testing.T) { eachProduct(t, testAlteredTable) }

func testAlteredTable(t *testing.T, product testenv.Product) {
	t.Run("a renamed column is dropped and added", func(t *testing.T) {
		b, s := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t CHANGE n m INT")
		if p := read(t, s, source.Query{Limit: 9}); p.Columns.List[2].Name != "m" || string(p.Rows[0].Values[2]) != "1" {
			t.Fatalf("columns %v", p.Columns.List)
		}
		if got := b.log.Drain(); !strings.Contains(got, "added=m dropped=n") {
			t.Fatalf("log %q", got)
		}
	})
	t.Run("another type is noticed at the next page", func(t *testing.T) {
		b, s := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t MODIFY at DATETIME(3), MODIFY n VARCHAR(10)")
		want := []source.Column{{Name: "n", Kind: source.Text}, {Name: "at", Kind: source.DateTime, Precision: 3}}
		p := read(t, s, source.Query{Limit: 9})
		if p.Columns.List[2] != want[0] || p.Columns.List[3] != want[1] || string(p.Rows[0].Values[3]) != "2026-01-02 03:04:05.000" {
			t.Fatalf("columns %v", p.Columns.List)
		}
		if got := b.log.Drain(); !strings.Contains(got, "altered=n,at") {
			t.Fatalf("log %q", got)
		}
	})
	t.Run("only the order of columns changes", func(t *testing.T) {
		b, s := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t MODIFY at DATETIME FIRST")
		p := read(t, s, source.Query{Limit: 9})
		for i, column := range p.Columns.List {
			if want := map[string]string{"id": "1", "n": "1", "at": "2026-01-02 03:04:05"}[column.Name]; want != "" && string(p.Rows[0].Values[i]) != want {
				t.Errorf("%s is %q, want %q", column.Name, p.Rows[0].Values[i], want)
			}
		}
	})
	t.Run("the index of the id may change, also while only ids are read", func(t *testing.T) {
		b, s := altered(t, product, source.Spec{})
		ids := b.source.Shard(source.Spec{Table: "t", ID: "id"})
		read(t, ids, source.Query{Limit: 9})
		b.exec(t, "ALTER TABLE t MODIFY id INT NOT NULL, DROP PRIMARY KEY, ADD UNIQUE KEY other (id)")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 1 {
			t.Fatalf("%d rows", len(p.Rows))
		}
		expectIDs(t, readIDs(t, ids, false, source.Range{First: 1, Last: 9}), 1)
	})
	t.Run("a dropped table stops the shard", func(t *testing.T) {
		b, s := altered(t, product, source.Spec{})
		b.exec(t, "DROP TABLE t")
		if err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page)); !errors.Is(err, source.ErrMissing) {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("an added column is there at the next page although EXCLUDE leaves another one out", func(t *testing.T) {
		b, s := altered(t, product, source.Spec{Exclude: []string{"n"}})
		b.exec(t, "ALTER TABLE t ADD extra FLOAT DEFAULT 0.1")
		if p := read(t, s, source.Query{Limit: 9}); len(p.Columns.List) != 4 || string(p.Rows[0].Values[3]) != "0.1" {
			t.Fatalf("columns %v, rows %v", p.Columns.List, p.Rows)
		}
	})
}
