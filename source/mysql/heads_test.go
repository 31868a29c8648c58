package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bridge/source"
	"bridge/tests/testenv"
)

// readHead returns the head of s; nil where only a read can tell.
func readHead(t *testing.T, s source.Shard) *source.Page {
	t.Helper()
	var p source.Page
	seen, err := s.(source.HeadReader).ReadHead(t.Context(), 20*time.Millisecond, &p)
	if err != nil {
		t.Fatal(err)
	}
	if !seen {
		return nil
	}
	return &p
}

// seesHead returns the head of s, once a machine that is busy answers in time.
func seesHead(t *testing.T, s source.Shard) (p *source.Page) {
	t.Helper()
	eventually(t, func() bool {
		p = readHead(t, s)
		return p != nil
	})
	return p
}

func TestAHeadAgreesWithAPage(t *testing.T) { eachProduct(t, testAHeadAgreesWithAPage) }

func testAHeadAgreesWithAPage(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE a (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT)")
	b.exec(t, "INSERT INTO a (id, v) VALUES (7, 1)")
	s := b.source.Shard(source.Spec{Table: "a", ID: "id"})
	if p := readHead(t, s); p != nil {
		t.Errorf("a head before the first read: %+v", p)
	}
	page := read(t, s, source.Query{After: 7, Limit: 10})
	p := seesHead(t, s)
	if p.MaxID != 7 || p.Server != page.Server || p.Columns != page.Columns || len(p.Rows) > 0 || p.More || !p.Now.After(page.Now) {
		t.Fatalf("the head says %+v, a page %+v", p, page)
	}
	b.exec(t, "INSERT INTO a (v) VALUES (2)")
	if p = seesHead(t, s); p.MaxID != 8 {
		t.Errorf("after an insert: %+v", p)
	}
	b.exec(t, "DELETE FROM a")
	if p = seesHead(t, s); p.MaxID != 0 {
		t.Errorf("after all is deleted: %+v", p)
	}
	b.exec(t, "DROP TABLE a")
	if p = readHead(t, s); p != nil {
		t.Errorf("a table that is gone: %+v", p)
	}
}

func TestHeadsShareStatements(t *testing.T) { eachProduct(t, testHeadsShareStatements) }

func testHeadsShareStatements(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
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
		n, err := strconv.Atoi(b.status(t, "Questions"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// all reads the heads of all tables at once and returns how many were seen.
	all := func() int {
		var done sync.WaitGroup
		var count atomic.Int64
		for i, s := range shards {
			done.Go(func() {
				var p source.Page
				seen, err := s.(source.HeadReader).ReadHead(t.Context(), 20*time.Millisecond, &p)
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
	// A statement that a busy machine does not answer in time is no fault.
	eventually(t, func() bool {
		before := asked()
		seen := all()
		statements := asked() - before
		if seen != tables || statements > tables/5 {
			t.Logf("%d statements, %d of %d tables were seen", statements, seen, tables)
		}
		return seen == tables && statements <= tables/5
	})
	b.exec(t, "DROP TABLE t7")
	if n := all(); n == tables {
		t.Error("a table that is gone was seen")
	}
	// Those that a table that is gone has spoiled a statement for are alone.
	eventually(t, func() bool { return all() >= tables-100 })
}

func TestReadHeadWaitsForNoLock(t *testing.T) { eachProduct(t, testReadHeadWaitsForNoLock) }

func testReadHeadWaitsForNoLock(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
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
	if p := readHead(t, s); p != nil {
		t.Errorf("a table that is locked: %+v", p)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("reading the head took %s", took)
	}
	// The server ends the statement, though the lock stays.
	eventually(t, func() bool {
		return b.query(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock%'") == "0"
	})
}

func TestASourceClosesWhileItReadsHeads(t *testing.T) {
	eachProduct(t, testASourceClosesWhileItReadsHeads)
}

func testASourceClosesWhileItReadsHeads(t *testing.T, product testenv.Product) {
	server := product.Shared(t)
	b := newBase(t, server)
	b.exec(t, "CREATE TABLE a (id INT PRIMARY KEY)")
	proxy := testenv.StartProxy(t, server.Addr)
	from := open(t, strings.Replace(server.URL("", "", b.name), server.Addr, proxy.Addr(), 1))
	s := from.Shard(source.Spec{Table: "a", ID: "id"})
	read(t, s, source.Query{Limit: 1})
	seesHead(t, s)
	paused := proxy.PauseAfter(0)
	defer proxy.Heal()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-paused
		cancel()
	}()
	// One that waited for the statement would say that there is no head.
	if seen, err := s.(source.HeadReader).ReadHead(ctx, time.Millisecond, new(source.Page)); !errors.Is(err, context.Canceled) {
		t.Errorf("a read that was cancelled: %t, %v", seen, err)
	}
	if err := from.Close(); err != nil {
		t.Error(err)
	}
}
