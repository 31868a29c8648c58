package mysql_test

import (
	"errors"
	"strings"
	"testing"

	"bridge/internal/option"
	"bridge/source"
	"bridge/tests/testenv"
)

func TestUnfitTables(t *testing.T) { eachProduct(t, testUnfitTables) }

func testUnfitTables(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	// An index that no statement may use.
	hidden := "IGNORED"
	if product.IsMySQL() {
		hidden = "INVISIBLE"
	}
	for _, test := range []struct {
		name, definition string
		spec             source.Spec
		want             string
	}{
		{"the id is a text", "id VARCHAR(20) PRIMARY KEY", source.Spec{}, "must be an integer"},
		{"the id has no index", "id INT", source.Spec{}, "name another column with X_ID, or let"},
		{"the id has an index that is not unique", "id INT, KEY (id)", source.Spec{}, "no unique index of its own"},
		{"the id is unique with another column only", "id INT, b INT, PRIMARY KEY (id, b)", source.Spec{}, "no unique index of its own"},
		{"the id is unique with another column, which comes first", "id INT AUTO_INCREMENT, b INT, PRIMARY KEY (b, id), KEY (id)", source.Spec{}, "ADD UNIQUE KEY (`id`)"},
		{"the id's index is ignored", "pk INT PRIMARY KEY, id INT NOT NULL, UNIQUE KEY u (id) " + hidden, source.Spec{}, "no unique index of its own"},
		{"the id may be NULL", "id INT NULL, UNIQUE KEY (id)", source.Spec{}, "NOT NULL"},
		{"CREATED is an integer", "id INT PRIMARY KEY, c BIGINT", source.Spec{Created: "c"}, "X_CREATED must name"},
		{"MODIFIED is a text", "id INT PRIMARY KEY, c TEXT", source.Spec{Modified: "c"}, "X_MODIFIED must name"},
		{"the KEY of states has no index", "id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL", states("a", "b"), "ADD UNIQUE KEY (`a`, `b`)"},
		{"the KEY of states is unique with another column only", "id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, UNIQUE KEY (a, b)", states("a"), "no unique index"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b.replaceTable(t, "unfit", "("+test.definition+")")
			test.spec.Table, test.spec.ID = "unfit", "id"
			err := b.source.Shard(test.spec).Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
			if !errors.Is(err, source.ErrUnfit) || !strings.Contains(option.Text(err, full), test.want) {
				t.Fatalf("error %q, want one with %q", option.Text(err, full), test.want)
			}
			if _, statement, ok := strings.Cut(err.Error(), "run: "); ok {
				b.exec(t, statement)
			}
		})
	}
	for _, test := range []struct {
		name, definition string
		spec             source.Spec
	}{
		{"the KEY of facts need not be unique", "id INT PRIMARY KEY, a INT", source.Spec{Key: []string{"a"}}},
		{"the KEY of states is the primary key", "id INT PRIMARY KEY", states("ID")},
		{"the KEY of states is unique in another order and case", "id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, UNIQUE KEY (b, a)", states("A", "b")},
		{"a part of the KEY of states is unique", "id INT PRIMARY KEY, a INT NOT NULL, b INT, UNIQUE KEY (a)", states("a", "b")},
		{"a prefix of the KEY of states is unique", "id INT PRIMARY KEY, a VARCHAR(200) NOT NULL, UNIQUE KEY (a(9))", states("a")},
		{"the id is counted and begins the primary key", "id INT AUTO_INCREMENT, b INT, PRIMARY KEY (id, b)", source.Spec{}},
		{"states without KEY are identified by the id", "id INT PRIMARY KEY", states()},
	} {
		t.Run(test.name, func(t *testing.T) {
			b.replaceTable(t, "fit", "("+test.definition+")")
			test.spec.Table, test.spec.ID = "fit", "id"
			read(t, b.source.Shard(test.spec), source.Query{Limit: 1})
		})
	}
	t.Run("a view", func(t *testing.T) {
		b.replaceTable(t, "fit", "(id INT PRIMARY KEY)")
		b.exec(t, "CREATE VIEW v AS SELECT * FROM fit")
		err := b.source.Shard(source.Spec{Table: "v", ID: "id"}).Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
		if !errors.Is(err, source.ErrUnfit) || !strings.Contains(err.Error(), "the table behind it") || strings.Contains(err.Error(), "run:") {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("a table without a database", func(t *testing.T) {
		s := open(t, b.server.URL("", "", "")).Shard(source.Spec{Table: "fit", ID: "id"})
		err := s.Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
		if !errors.Is(err, source.ErrMissing) || !strings.Contains(err.Error(), "database.table") {
			t.Fatalf("error %v", err)
		}
		if _, err := s.NextID(t.Context()); !errors.Is(err, source.ErrMissing) {
			t.Fatalf("next id: error %v", err)
		}
	})
	t.Run("a missing database", func(t *testing.T) {
		err := b.source.Shard(source.Spec{Table: "nowhere.t", ID: "id"}).Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
		if !errors.Is(err, source.ErrMissing) {
			t.Fatalf("error %v", err)
		}
	})
}

// states are the rows of a capability stream.
func states(key ...string) source.Spec { return source.Spec{Key: key, UniqueKey: true} }

func TestNames(t *testing.T) { eachProduct(t, testNames) }

func testNames(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	for _, name := range []string{
		"order", "select", "`", "``x`", "two words", `"quoted"`, "'single'", "тест", "日本", "a-b", "a;b", "a%b_c", `back\slash`, "?", "123", "{0}", "a,b",
	} {
		t.Run(name, func(t *testing.T) {
			quoted := "`" + strings.ReplaceAll(name, "`", "``") + "`"
			b.exec(t, "CREATE TABLE "+quoted+" ("+quoted+" INT AUTO_INCREMENT PRIMARY KEY, `json "+quoted[1:]+" JSON)")
			b.exec(t, "INSERT INTO "+quoted+" VALUES (7, '{}')")
			for _, table := range []string{name, b.name + "." + name} {
				s := b.source.Shard(source.Spec{Table: table, ID: name})
				p := read(t, s, source.Query{Limit: 9})
				if len(p.Rows) != 1 || p.Rows[0].ID != 7 || p.Columns.List[1] != (source.Column{Name: "json " + name, Kind: source.JSON}) {
					t.Fatalf("%d rows, columns %v", len(p.Rows), p.Columns.List)
				}
				if next, err := s.NextID(t.Context()); err != nil || next != 8 {
					t.Fatalf("next id %d, %v", next, err)
				}
			}
		})
	}
	t.Run("names that differ in case only are two tables", func(t *testing.T) {
		b.exec(t, "CREATE TABLE twin (id INT AUTO_INCREMENT PRIMARY KEY)")
		b.exec(t, "CREATE TABLE TWIN (id INT AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 50")
		for table, want := range map[string]uint64{"twin": 1, "TWIN": 50} {
			if next, err := b.source.Shard(source.Spec{Table: table, ID: "id"}).NextID(t.Context()); err != nil || next != want {
				t.Errorf("next id of %s: %d, %v", table, next, err)
			}
		}
	})
	t.Run("column names may be spelled in another case", func(t *testing.T) {
		b.exec(t, "CREATE TABLE spelled (Id INT PRIMARY KEY, CreatedAt DATETIME)")
		p := read(t, b.source.Shard(source.Spec{Table: "spelled", ID: "ID", Created: "createdat"}), source.Query{Limit: 9})
		if p.Columns.List[0].Name != "Id" || p.Columns.Created != 1 {
			t.Fatalf("columns %+v", p.Columns)
		}
	})
}

func TestIDs(t *testing.T) { eachProduct(t, testIDs) }

func testIDs(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE negative (id BIGINT PRIMARY KEY)")
	b.exec(t, "INSERT INTO negative VALUES (-5), (-1)")
	s := b.source.Shard(source.Spec{Table: "negative", ID: "id"})
	if p := read(t, s, source.Query{Limit: 9}); len(p.Rows) != 0 || p.MaxID != 0 {
		t.Fatalf("negative ids only: %d rows, highest %d", len(p.Rows), p.MaxID)
	}
	b.exec(t, "INSERT INTO negative VALUES (3), (9223372036854775807)")
	for _, q := range []source.Query{{Limit: 9}, {Limit: 9, Through: 18446744073709551615}} {
		if p := read(t, s, q); len(p.Rows) != 2 || p.MaxID != 9223372036854775807 {
			t.Fatalf("%d rows, highest %d", len(p.Rows), p.MaxID)
		}
	}
	if p := read(t, s, source.Query{Limit: 9, After: 18446744073709551615}); len(p.Rows) != 0 {
		t.Fatalf("%d rows", len(p.Rows))
	}
	b.exec(t, "CREATE TABLE reset (id INT AUTO_INCREMENT PRIMARY KEY)")
	b.exec(t, "INSERT INTO reset VALUES (100); TRUNCATE TABLE reset")
	if next, err := b.source.Shard(source.Spec{Table: "reset", ID: "id"}).NextID(t.Context()); err != nil || next != 1 {
		t.Fatalf("after truncate the next id is %d, %v", next, err)
	}
	if next, err := s.NextID(t.Context()); err != nil || next != 0 {
		t.Fatalf("without AUTO_INCREMENT the next id is %d, %v", next, err)
	}
}

// full names a setting as an environment could.
func full(name option.Name) string { return "X_" + string(name) }
