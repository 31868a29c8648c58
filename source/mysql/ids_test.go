package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

func readIDs(t *testing.T, s source.Shard, uncommitted bool, ranges ...source.Range) []uint64 {
	t.Helper()
	var ids source.IDs
	must.OK(t, s.(source.IDReader).ReadIDs(t.Context(), ranges, uncommitted, 100_000, &ids))
	if ids.Now.IsZero() || ids.Server == "" {
		t.Errorf("clock %v, server %q", ids.Now, ids.Server)
	}
	return ids.List
}

func begin(t *testing.T, b base) *sql.Tx {
	t.Helper()
	tx := must.Get(b.admin.BeginTx(t.Context(), nil))(t)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func expectIDs(t *testing.T, got []uint64, want ...uint64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got ids %v, want %v", got, want)
	}
}

// Tables whose names differ in case only are two. One that was truncated begins with 1 again.
func TestNextID(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t))
		b.exec(t, "CREATE TABLE twin (id INT AUTO_INCREMENT PRIMARY KEY); CREATE TABLE TWIN (id INT AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 50")
		b.exec(t, "CREATE TABLE reset (id INT AUTO_INCREMENT PRIMARY KEY); INSERT INTO reset VALUES (100); TRUNCATE TABLE reset")
		for table, want := range map[string]uint64{"twin": 1, "TWIN": 50, "reset": 1} {
			if next, err := b.source.Shard(source.Spec{Table: table, ID: "id"}).NextID(t.Context()); err != nil || next != want {
				t.Errorf("next id of %s: %d, %v; want %d", table, next, err, want)
			}
		}
	})
}

func TestNextIDAtTheEndOfItsType(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t))
		for definition, last := range map[string]uint64{
			"TINYINT": 127, "SMALLINT UNSIGNED": 65535, "MEDIUMINT": 8388607, "INT": 2147483647, "INT(5) UNSIGNED": 4294967295,
			"BIGINT": 9223372036854775807, "BIGINT UNSIGNED": 18446744073709551615,
		} {
			b.replaceTable(t, "ends", "(id "+definition+" AUTO_INCREMENT PRIMARY KEY)")
			s := b.source.Shard(source.Spec{Table: "ends", ID: "id"})
			next := func() uint64 {
				t.Helper()
				return must.Get(s.NextID(t.Context()))(t)
			}
			b.exec(t, "INSERT INTO ends VALUES (?)", last-1)
			if got := next(); got != last {
				t.Errorf("%s: after %d comes %d", definition, last-1, got)
			}
			b.exec(t, "INSERT INTO ends VALUES (?)", last)
			if got := next(); got != 0 && got <= last {
				t.Errorf("%s: after the last id %d comes %d", definition, last, got)
			}
			// MySQL gives that id again.
			b.exec(t, "DELETE FROM ends WHERE id = ?", last)
			if got := next(); product.IsMySQL() && got != last {
				t.Errorf("%s: after the row %d is gone comes %d", definition, last, got)
			}
		}
	})
}

func TestSessionsInAnotherTimeZone(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t))
	for _, c := range []struct {
		name, zone string
		// column is the type of MODIFIED, want what the finding says, empty for none.
		column, want string
	}{
		{"in that of the stream", "+00:00", "DATETIME(6)", ""},
		{"east of it", "+02:00", "DATETIME(6)", "2h0m0s in the future"},
		{"west of it", "-05:30", "DATETIME", "5h30m0s before CREATED"},
		{"with a TIMESTAMP", "-05:00", "TIMESTAMP(6)", ""},
		{"beyond every duration", "+00:00", "DATETIME(6)", "(modified) of 9999-12-31, in the future"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.exec(t, "DROP TABLE IF EXISTS zoned")
			b.exec(t, "CREATE TABLE zoned (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(9) NOT NULL UNIQUE, created TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), modified "+
				c.column+" NOT NULL, KEY (modified))")
			tx := begin(t, b)
			for _, statement := range []string{"SET time_zone = '" + c.zone + "'", "INSERT INTO zoned (name, modified) VALUES ('a', NOW(6)), ('b', NOW(6)), ('c', NOW(6))", "SET time_zone = DEFAULT"} {
				must.Get(tx.ExecContext(t.Context(), statement))(t)
			}
			must.OK(t, tx.Commit())
			if strings.Contains(c.want, "9999") {
				b.exec(t, "UPDATE zoned SET modified = '9999-12-31'")
			}
			spec := source.Spec{Table: "zoned", ID: "id", Key: []string{"name"}, UniqueKey: true, Created: "created", Modified: "modified"}
			found := b.source.Inspect(t.Context(), []source.Expected{{Spec: spec, Updates: true, Zone: time.UTC}}, 1)
			at := slices.IndexFunc(found.Tables[0].Findings, func(f inspect.Finding) bool { return f.Code == inspect.TimeOffset })
			switch {
			case c.want == "" && at >= 0:
				t.Errorf("found %q", found.Tables[0].Findings[at].What)
			case c.want != "" && (at < 0 || !strings.Contains(found.Tables[0].Findings[at].What, c.want)):
				t.Errorf("found %+v, want %q", found.Tables[0].Findings, c.want)
			}
		})
	}
}

// readHead returns the head of s; nil where only a read can tell.
func readHead(t *testing.T, s source.Shard) *source.Page {
	t.Helper()
	var p source.Page
	seen := must.Get(s.(source.HeadReader).ReadHead(t.Context(), 20*time.Millisecond, &p))(t)
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
	page := sourcetest.Read(t, s, source.Query{After: 7, Limit: 10})
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
	const tables, readers = 20, 120
	var create string
	for i := range tables {
		create += fmt.Sprintf("CREATE TABLE t%d (id INT PRIMARY KEY); INSERT INTO t%d VALUES (%d);", i, i, i+1)
	}
	b.exec(t, create)
	var shards [readers]source.Shard
	for i := range shards {
		// One is the only one of its table.
		shards[i] = b.source.Shard(source.Spec{Table: fmt.Sprint("t", i%(tables-1)), ID: "id"})
		if i == 0 {
			shards[i] = b.source.Shard(source.Spec{Table: fmt.Sprint("t", tables-1), ID: "id"})
		}
		sourcetest.Read(t, shards[i], source.Query{Limit: 1})
	}
	asked := func() int {
		return must.Get(strconv.Atoi(b.status(t, "Questions")))(t)
	}
	all := func() int {
		var done sync.WaitGroup
		var count atomic.Int64
		for i, s := range shards {
			done.Go(func() {
				var p source.Page
				seen, err := s.(source.HeadReader).ReadHead(t.Context(), 20*time.Millisecond, &p)
				if last := uint64(1 + i%(tables-1)); err != nil || seen && i > 0 && p.MaxID != last {
					t.Errorf("reader %d: %v, %v, %d", i, seen, err, p.MaxID)
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
	// A statement that a busy machine does not answer in time is not a fault.
	eventually(t, func() bool {
		before := asked()
		seen := all()
		statements := asked() - before
		if seen != readers || statements > readers/5 {
			t.Logf("%d statements, %d of %d heads were seen", statements, seen, readers)
		}
		return seen == readers && statements <= readers/5
	})
	b.exec(t, fmt.Sprint("DROP TABLE t", tables-1))
	if n := all(); n == readers {
		t.Error("a table that is gone was seen")
	}
	// Those that a table that is gone has spoiled a statement for are alone.
	eventually(t, func() bool { return all() >= readers-100 })
}

func TestReadHeadWaitsForNoLock(t *testing.T) { eachProduct(t, testReadHeadWaitsForNoLock) }

func testReadHeadWaitsForNoLock(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE a (id INT PRIMARY KEY)")
	s := b.source.Shard(source.Spec{Table: "a", ID: "id"})
	sourcetest.Read(t, s, source.Query{Limit: 1})
	lock := must.Get(b.admin.Conn(t.Context()))(t)
	defer lock.Close()
	must.Get(lock.ExecContext(t.Context(), "LOCK TABLES a WRITE"))(t)
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
	sourcetest.Read(t, s, source.Query{Limit: 1})
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
	must.OK(t, from.Close())
}
