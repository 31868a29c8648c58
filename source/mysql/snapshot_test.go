package mysql_test

import (
	"testing"

	"bridge/source"
	"bridge/tests/testenv"
)

// The rows of a page and the highest id beside them must be of one moment, whatever commits
// meanwhile.
func TestPageIsOneSnapshot(t *testing.T) { eachProduct(t, testPageIsOneSnapshot) }

func testPageIsOneSnapshot(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, body TEXT)")
	const rows = 3000
	written := make(chan error, 1)
	go func() {
		for range rows {
			if _, err := b.admin.ExecContext(t.Context(), "INSERT INTO t (body) VALUES (REPEAT('b', 500))"); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	s := b.source.Shard(source.Spec{Table: "t", ID: "id"})
	var last, seen uint64
	for last < rows {
		p := read(t, s, source.Query{After: last, Limit: 100_000})
		seen += uint64(len(p.Rows))
		if len(p.Rows) > 0 {
			last = p.Rows[len(p.Rows)-1].ID
		}
		if p.MaxID != last {
			t.Fatalf("the page ends with %d, the highest id is %d", last, p.MaxID)
		}
		select {
		case err := <-written:
			if err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	if seen != rows {
		t.Fatalf("%d rows, want %d", seen, rows)
	}
}
