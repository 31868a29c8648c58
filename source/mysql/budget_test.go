package mysql_test

import (
	"runtime"
	"strings"
	"testing"

	"bridge/source"
	"bridge/tests/testenv"
)

// Rows that grow without warning must neither be held beyond the budget nor be read to be thrown
// away.
func TestBudget(t *testing.T) { eachProduct(t, testBudget) }

func testBudget(t *testing.T, product testenv.Product) {
	server := product.Shared(t)
	b := newBase(t, server)
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY, body LONGTEXT)")
	b.exec(t, "INSERT INTO t SELECT seq, 'small' FROM "+testenv.Sequence(2000))
	b.exec(t, "INSERT INTO t SELECT 2000 + seq, REPEAT('b', 1000000) FROM "+testenv.Sequence(60))
	proxy := testenv.StartProxy(t, server.Addr)
	s := open(t, strings.Replace(server.URL("", "", b.name), server.Addr, proxy.Addr(), 1)).Shard(source.Spec{Table: "t", ID: "id"})
	const budget = 1 << 20
	var p source.Page
	q := source.Query{Limit: 2000, MaxBytes: budget}
	rows, largest := 0, 0
	for {
		passed := proxy.Received()
		if err := s.Read(t.Context(), q, &p); err != nil {
			t.Fatal(err)
		}
		if q.After == 2000 {
			// The sockets hold some of what is not read.
			if got := proxy.Received() - passed; got > 24<<20 {
				t.Errorf("%d MB came over the wire for a page of 1 MiB", got>>20)
			}
		}
		rows += len(p.Rows)
		largest = max(largest, p.Bytes)
		if !p.More {
			break
		}
		q.After = p.Rows[len(p.Rows)-1].ID
	}
	if rows != 2060 || largest > budget+1_000_010 {
		t.Fatalf("%d rows, largest page %d bytes", rows, largest)
	}
}

// A page of modest size must cost a few allocations a row only: what the driver boxes.
func BenchmarkRead(b *testing.B) {
	server := testenv.MariaDB(b)
	admin := server.Admin(b, server.NewDatabase(b))
	var name string
	if err := admin.QueryRow("SELECT DATABASE()").Scan(&name); err != nil {
		b.Fatal(err)
	}
	if _, err := admin.Exec(`CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, app VARCHAR(50), cluster VARCHAR(50), n INT, at DATETIME(6), note TEXT, v DOUBLE);
		INSERT INTO t SELECT seq, 'application', 'default', seq, NOW(6), REPEAT('x', 100), seq/7 FROM ` + testenv.Sequence(100000)); err != nil {
		b.Fatal(err)
	}
	s := open(b, server.URL("", "", name)).Shard(source.Spec{Table: "t", ID: "id"})
	var p source.Page
	q := source.Query{Limit: 2000}
	rows := 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		if err := s.Read(b.Context(), q, &p); err != nil {
			b.Fatal(err)
		}
		rows += len(p.Rows)
		q.After = p.Rows[len(p.Rows)-1].ID % 100_000
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(rows), "allocs/row")
}
