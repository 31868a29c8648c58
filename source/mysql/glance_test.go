package mysql_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/source"
)

// glance returns what a glance at s says; nil where only a read can tell.
func glance(t *testing.T, s source.Shard) *source.Page {
	t.Helper()
	var p source.Page
	seen, err := s.(source.Glancer).Glance(t.Context(), 20*time.Millisecond, &p)
	if err != nil {
		t.Fatal(err)
	}
	if !seen {
		return nil
	}
	return &p
}

func TestAGlanceSaysWhatAPageSays(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t))
	b.exec(t, "CREATE TABLE a (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT)")
	b.exec(t, "INSERT INTO a (id, v) VALUES (7, 1)")
	s := b.source.Shard(source.Spec{Table: "a", ID: "id"})
	if p := glance(t, s); p != nil {
		t.Errorf("a glance before the first read: %+v", p)
	}
	page := read(t, s, source.Query{After: 7, Limit: 10})
	p := glance(t, s)
	if p == nil || p.MaxID != 7 || p.Server != page.Server || p.Columns != page.Columns || len(p.Records) > 0 || p.More || !p.Now.After(page.Now) {
		t.Fatalf("a glance says %+v, a page %+v", p, page)
	}
	b.exec(t, "INSERT INTO a (v) VALUES (2)")
	if p = glance(t, s); p == nil || p.MaxID != 8 {
		t.Errorf("after an insert: %+v", p)
	}
	b.exec(t, "DELETE FROM a")
	if p = glance(t, s); p == nil || p.MaxID != 0 {
		t.Errorf("after all is deleted: %+v", p)
	}
	b.exec(t, "DROP TABLE a")
	if p = glance(t, s); p != nil {
		t.Errorf("a table that is gone: %+v", p)
	}
}

func TestGlancesShareStatements(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t))
	const tables = 250
	var shards [tables]source.Shard
	for i := range shards {
		name := fmt.Sprintf("t%d", i)
		b.exec(t, "CREATE TABLE "+name+" (id INT PRIMARY KEY)")
		b.exec(t, fmt.Sprintf("INSERT INTO %s VALUES (%d)", name, i+1))
		shards[i] = b.source.Shard(source.Spec{Table: name, ID: "id"})
		read(t, shards[i], source.Query{Limit: 1})
	}
	asked := func() int {
		n, err := strconv.Atoi(b.query(t, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Questions'"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	all := func() {
		var done sync.WaitGroup
		for i, s := range shards {
			done.Go(func() {
				var p source.Page
				if seen, err := s.(source.Glancer).Glance(t.Context(), 20*time.Millisecond, &p); err != nil || seen && p.MaxID != uint64(i+1) {
					t.Errorf("table %d: %v, %v, %d", i, seen, err, p.MaxID)
				}
			})
		}
		done.Wait()
	}
	before := asked()
	all()
	if n := asked() - before; n > tables/5 {
		t.Errorf("%d statements for %d glances", n, tables)
	}
	t.Run("one of which fails for all", func(t *testing.T) {
		b.exec(t, "DROP TABLE t7")
		all()
	})
}
