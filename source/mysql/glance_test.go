package mysql_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	// all glances at all tables at once and returns how many were seen.
	all := func() int {
		var done sync.WaitGroup
		var count atomic.Int64
		for i, s := range shards {
			done.Go(func() {
				var p source.Page
				seen, err := s.(source.Glancer).Glance(t.Context(), 20*time.Millisecond, &p)
				if err != nil || seen && p.MaxID != uint64(i+1) {
					t.Errorf("table %d: %v, %v, %d", i, seen, err, p.MaxID)
				}
				if seen {
					count.Add(1)
				}
			})
		}
		done.Wait()
		return int(count.Load())
	}
	all() // logs in
	before := asked()
	if n := all(); n != tables {
		t.Errorf("%d of %d tables were seen", n, tables)
	}
	if n := asked() - before; n > tables/5 {
		t.Errorf("%d statements for %d glances", n, tables)
	}
	b.exec(t, "DROP TABLE t7")
	if n := all(); n == tables {
		t.Error("a table that is gone was seen")
	}
	if n := all(); n < tables-100 {
		t.Errorf("%d of %d tables were seen: those that a table that is gone has spoiled a statement for should be alone", n, tables)
	}
}

func TestAGlanceWaitsForNoLock(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t))
	b.exec(t, "CREATE TABLE a (id INT PRIMARY KEY)")
	s := b.source.Shard(source.Spec{Table: "a", ID: "id"})
	read(t, s, source.Query{Limit: 1})
	lock, err := b.admin.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(t.Context(), "LOCK TABLES a WRITE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if p := glance(t, s); p != nil {
		t.Errorf("a table that is locked: %+v", p)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the glance took %s", took)
	}
	if n := b.query(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock%'"); n != "0" {
		t.Errorf("%s statements wait for the lock still", n)
	}
}

func TestASourceWithAGlanceUnderWayCloses(t *testing.T) {
	server := testenv.MariaDB(t)
	b := newBase(t, server)
	b.exec(t, "CREATE TABLE a (id INT PRIMARY KEY)")
	relay := startRelay(t, server.Addr)
	from := open(t, strings.Replace(server.URL("", "", b.name), server.Addr, relay.addr, 1))
	s := from.Shard(source.Spec{Table: "a", ID: "id"})
	read(t, s, source.Query{Limit: 1})
	if p := glance(t, s); p == nil {
		t.Fatal("it does not glance")
	}
	relay.pauseAfter(0)
	defer relay.resume()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		var p source.Page
		_, err := s.(source.Glancer).Glance(ctx, time.Millisecond, &p)
		done <- err
	}()
	<-relay.paused
	cancel()
	if err := <-done; err == nil {
		t.Error("a glance that was cancelled has no error")
	}
	began := time.Now()
	if err := from.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("closing took %s", took)
	}
}
