package mysql_test

import (
	"fmt"
	"testing"

	"bridge/source"
	"bridge/source/mysql"
	"bridge/tests/testenv"
)

// The counters of `SHOW SESSION STATUS` prove the plan: an index range that ends with the page,
// nothing sorted, nothing put into a temporary table.
func TestAPageReadsItsRowsOnly(t *testing.T) { eachProduct(t, testAPageReadsItsRowsOnly) }

func testAPageReadsItsRowsOnly(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	for _, layout := range []struct{ name, definition string }{
		{"primary key", "id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(50), body LONGTEXT, KEY (name)"},
		{"signed primary key", "id INT PRIMARY KEY, name VARCHAR(50), body TEXT"},
		{"unique key", "name VARCHAR(50) PRIMARY KEY, id BIGINT UNSIGNED NOT NULL, body TEXT, UNIQUE KEY (id)"},
		{"unique key beside a composite primary key", "id BIGINT NOT NULL, name VARCHAR(50), body TEXT, PRIMARY KEY (name, id), UNIQUE KEY u (id)"},
	} {
		for _, rows := range []int{0, 1, 3, 60, 20_000} {
			t.Run(fmt.Sprintf("%s, %d rows", layout.name, rows), func(t *testing.T) {
				b.replaceTable(t, "plan", "("+layout.definition+") DEFAULT CHARSET utf8mb4")
				if rows > 0 {
					b.exec(t, fmt.Sprintf("INSERT INTO plan (id, name, body) SELECT 2*seq, UUID(), REPEAT('b', 500) FROM %s", testenv.Sequence(rows)))
				}
				s := b.source.Shard(source.Spec{Table: "plan", ID: "id"})
				for _, q := range []source.Query{
					{Limit: 10}, {After: uint64(rows), Limit: 10}, {After: uint64(2 * rows), Limit: 10},
					{After: 4, Through: uint64(rows + 5), Limit: 10}, {Limit: 2, MaxBytes: 100_000},
				} {
					checkCost(t, s, q)
				}
			})
		}
	}
}

func checkCost(t *testing.T, s source.Shard, q source.Query) {
	t.Helper()
	var p source.Page
	cost, err := mysql.ReadCost(t.Context(), s, q, &p)
	if err != nil {
		t.Fatal(err)
	}
	if cost["Handler_read_key"] > 1 || cost["Handler_read_last"] > 1 || cost["Handler_read_next"] > len(p.Rows) {
		t.Errorf("%+v: %d rows cost key=%d last=%d next=%d", q, len(p.Rows),
			cost["Handler_read_key"], cost["Handler_read_last"], cost["Handler_read_next"])
	}
	if cost["Handler_read_key"] == 0 && p.MaxID > q.After {
		t.Errorf("%+v: the counters do not count: %v", q, cost)
	}
	for _, name := range []string{
		"Handler_read_first", "Handler_read_prev", "Handler_read_rnd", "Handler_read_rnd_next", "Handler_tmp_write", "Sort_rows",
		"Sort_scan", "Sort_range", "Select_scan", "Select_full_join",
	} {
		// SHOW STATUS itself is not counted before it ends.
		if cost[name] != 0 {
			t.Errorf("%+v: %s is %d", q, name, cost[name])
		}
	}
}
