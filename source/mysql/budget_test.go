package mysql_test

import (
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
