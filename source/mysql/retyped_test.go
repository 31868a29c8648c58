package mysql_test

import (
	"fmt"
	"slices"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

var retyped = []struct{ from, to, value string }{
	{"FLOAT", "DOUBLE", "1.23456789012345"},
	{"FLOAT", "DECIMAL(20,10)", "1.2345678901"},
	{"FLOAT", "VARCHAR(20)", "'words'"},
	{"FLOAT(7,3)", "DOUBLE", "1.23456789012345"},
	{"DOUBLE", "FLOAT", "0.1"},
	{"DECIMAL(20,0)", "BIGINT UNSIGNED", "18446744073709551615"},
	{"DECIMAL(10,2)", "DECIMAL(10,3)", "1.125"},
	{"INT", "BIGINT UNSIGNED", "18446744073709551615"},
	{"INT UNSIGNED", "INT", "-1"},
	{"TINYINT(1)", "BIT(1)", "1"},
	{"BIT(1)", "BIT(20)", "b'10000000000000000001'"},
	{"VARCHAR(50)", "JSON", `'{"a": 1}'`},
	{"JSON", "LONGTEXT", "'words'"},
	{"LONGTEXT CHARACTER SET latin1", "LONGTEXT CHARACTER SET utf8mb4 CHECK (json_valid(v))", `'["ü"]'`},
	{"VARCHAR(50) CHARACTER SET latin1", "VARCHAR(50) CHARACTER SET utf8mb4", "'тест'"},
	{"VARCHAR(50)", "VARBINARY(50)", "x'00ff'"},
	{"ENUM('a','b')", "ENUM('c','a','b')", "'c'"},
	{"DATETIME", "TIMESTAMP NULL", "'2026-07-01 12:00:00'"},
	{"TIMESTAMP(3) NULL", "DATETIME(3)", "'2026-07-01 12:00:00.5'"},
	{"DATETIME", "DATETIME(6)", "'2026-07-01 12:00:00.5'"},
	{"TIME", "TIME(3)", "'12:00:00.5'"},
	{"FLOAT AS (x / 3) STORED", "DOUBLE AS (x / 3) STORED", "DEFAULT"},
	{"INT AS (x + 1) VIRTUAL", "DECIMAL(10,1) AS (x + 2) VIRTUAL", "DEFAULT"},
}

// The page after ALTER TABLE is the one that a reader gets who begins then: also where a setting
// leaves a column out, or has a condition, where rows are read by their keys, and where the columns
// were read before the change and no page was.
func TestRetypedColumn(t *testing.T) {
	every := testall.Cases(3, 1)
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t), refreshNever)
		for _, test := range everyNth(every, retyped) {
			t.Run(test.from+" becomes "+test.to, func(t *testing.T) { b.retype(t, test.from, test.to, test.value) })
		}
	})
}

func (b base) retype(t *testing.T, from, to, value string) {
	b.replaceTable(t, "retyped", "(id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, x FLOAT, v "+from+", doc LONGTEXT, y INT UNSIGNED) DEFAULT CHARSET utf8mb4")
	specs := []source.Spec{
		{Table: "retyped", ID: "id"},
		{Table: "retyped", ID: "id", Exclude: []string{"y"}, Filter: "id <> 9"},
		{Table: "retyped", ID: "id", Key: []string{"id"}, UniqueKey: true},
		{Table: "retyped", ID: "id"},
	}
	queries := []source.Query{{Limit: 9}, {Limit: 9}, {Limit: 9, Keys: [][][]byte{{[]byte("1")}}}, {Limit: 9}}
	var shards []source.Shard
	for i, sp := range specs {
		shards = append(shards, b.source.Shard(sp))
		if i < 3 {
			sourcetest.Read(t, shards[i], queries[i])
		} else if _, err := shards[i].NextID(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(t, "ALTER TABLE retyped MODIFY v "+to)
	b.exec(t, "INSERT INTO retyped (x, v, y) VALUES (0.1, "+value+", 4000000000)")
	for i, sp := range specs {
		was, is := sourcetest.Read(t, shards[i], queries[i]), sourcetest.Read(t, b.source.Shard(sp), queries[i])
		if !slices.Equal(was.Columns.List, is.Columns.List) || fmt.Sprintf("%v", was.Rows) != fmt.Sprintf("%v", is.Rows) || len(is.Rows) != 1 {
			t.Errorf("spec %d: %v of %+v, a new reader has %v of %+v", i, was.Rows, was.Columns.List, is.Rows, is.Columns.List)
		}
	}
}

// altered is a table that a shard has read once with columns that are not read again by time.
func altered(t *testing.T, product testenv.Product, sp source.Spec) (base, source.Shard) {
	t.Helper()
	b := newBase(t, product.Shared(t), refreshNever)
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20), n INT, at DATETIME)")
	b.exec(t, "INSERT INTO t (name, n, at) VALUES ('a', 1, '2026-01-02 03:04:05')")
	sp.Table, sp.ID = "t", "id"
	s := b.source.Shard(sp)
	sourcetest.Read(t, s, source.Query{Limit: 9})
	return b, s
}

func TestAlteredTable(t *testing.T) { eachProduct(t, testAlteredTable) }

func testAlteredTable(t *testing.T, product testenv.Product) {
	t.Run("only the order of columns changes", func(t *testing.T) {
		b, s := altered(t, product, source.Spec{})
		b.exec(t, "ALTER TABLE t MODIFY at DATETIME FIRST")
		p := sourcetest.Read(t, s, source.Query{Limit: 9})
		for i, column := range p.Columns.List {
			if want := map[string]string{"id": "1", "n": "1", "at": "2026-01-02 03:04:05"}[column.Name]; want != "" && string(p.Rows[0].Values[i]) != want {
				t.Errorf("%s is %q, want %q", column.Name, p.Rows[0].Values[i], want)
			}
		}
	})
	t.Run("the index of the id may change, also while only ids are read", func(t *testing.T) {
		b, s := altered(t, product, source.Spec{})
		ids := b.source.Shard(source.Spec{Table: "t", ID: "id"})
		sourcetest.Read(t, ids, source.Query{Limit: 9})
		b.exec(t, "ALTER TABLE t MODIFY id INT NOT NULL, DROP PRIMARY KEY, ADD UNIQUE KEY other (id)")
		sourcetest.Holds(t, s, 1)
		expectIDs(t, readIDs(t, ids, false, source.Range{First: 1, Last: 9}), 1)
	})
	for _, charset := range []string{"utf8mb3", "latin1"} {
		t.Run("a key is found that its column could not hold before, in "+charset, func(t *testing.T) {
			b := newBase(t, product.Shared(t), refreshNever)
			b.exec(t, "CREATE TABLE narrow (id INT PRIMARY KEY AUTO_INCREMENT, k VARCHAR(9) CHARACTER SET "+charset+" NOT NULL UNIQUE)")
			s := b.source.Shard(source.Spec{Table: "narrow", ID: "id", Key: []string{"k"}, UniqueKey: true})
			expectIDs(t, byKey(t, s, texts("😀")))
			b.exec(t, "ALTER TABLE narrow MODIFY k VARCHAR(9) CHARACTER SET utf8mb4 NOT NULL; INSERT INTO narrow (k) VALUES ('😀')")
			expectIDs(t, byKey(t, s, texts("😀")), 1)
			b.exec(t, "ALTER TABLE narrow MODIFY k VARCHAR(9); INSERT INTO narrow () VALUES ()")
			if p := sourcetest.Read(t, s, source.Query{After: 1, Limit: 9}); p.Columns.Keyless(p.Rows[0].Values) != 1 || p.Columns.List[1].NotNull {
				t.Errorf("NULL in a KEY that was NOT NULL is a key, or the column is not read again: %+v", p.Columns)
			}
		})
	}
	t.Run("an added column is there at the next page although EXCLUDE leaves another one out", func(t *testing.T) {
		b, s := altered(t, product, source.Spec{Exclude: []string{"n"}})
		b.exec(t, "ALTER TABLE t ADD extra FLOAT DEFAULT 0.1")
		if p := sourcetest.Read(t, s, source.Query{Limit: 9}); len(p.Columns.List) != 4 || string(p.Rows[0].Values[3]) != "0.1" {
			t.Fatalf("columns %v, rows %v", p.Columns.List, p.Rows)
		}
	})
}
