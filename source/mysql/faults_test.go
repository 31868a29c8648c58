package mysql_test

import (
	"strings"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	must.Until(t, time.Minute, "the condition comes true", func() any {
		if condition() {
			return nil
		}
		return "it is not so"
	})
}

// readInTime reads a page, once a machine that is busy answers within the time limit of s.
func readInTime(t *testing.T, s source.Shard, q source.Query) *source.Page {
	t.Helper()
	var p source.Page
	must.Until(t, time.Minute, "it is read", func() any {
		err := s.Read(t.Context(), q, &p)
		if err != nil {
			sourcetest.Transient(t, err, nil)
		}
		return err
	})
	return &p
}

func (b base) wideRows(t *testing.T) {
	t.Helper()
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY, body LONGTEXT)")
	b.exec(t, "INSERT INTO t SELECT seq, REPEAT('b', 20000) FROM "+testenv.Sequence(1000))
}

func TestConnectionKilledInMidResult(t *testing.T) {
	eachProduct(t, testConnectionKilledInMidResult)
}

func testConnectionKilledInMidResult(t *testing.T, product testenv.Product) {
	server := product.Shared(t)
	b := newBase(t, server)
	b.wideRows(t)
	proxy := testenv.StartProxy(t, server.Addr)
	s := open(t, strings.Replace(server.URL("", "", b.name), server.Addr, proxy.Addr(), 1)).Shard(source.Spec{Table: "t", ID: "id"})
	sourcetest.Read(t, s, source.Query{Limit: 1})

	paused := proxy.PauseAfter(5 << 20)
	var p source.Page
	done := make(chan error)
	go func() { done <- s.Read(t.Context(), source.Query{Limit: 1000}, &p) }()
	<-paused
	b.exec(t, "KILL CONNECTION "+b.query(t, "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%UNION ALL%LIMIT 1000)%' AND ID <> CONNECTION_ID()"))
	proxy.Heal()
	err := <-done
	sourcetest.Transient(t, err, nil)
	if len(p.Rows) != 0 || p.Bytes != 0 {
		t.Fatalf("a page of %d rows beside the error %v", len(p.Rows), err)
	}
	sourcetest.Holds(t, s, 1000)
}

func TestSilentServer(t *testing.T) { eachProduct(t, testSilentServer) }

func testSilentServer(t *testing.T, product testenv.Product) {
	server := product.Shared(t)
	b := newBase(t, server)
	b.wideRows(t)
	proxy := testenv.StartProxy(t, server.Addr)
	s := open(t, strings.Replace(server.URL("", "", b.name), server.Addr, proxy.Addr(), 1), func(o *mysql.Options) {
		o.StatementTimeout = time.Second
	}).Shard(source.Spec{Table: "t", ID: "id"})
	readInTime(t, s, source.Query{Limit: 1})
	// A server that is held up before it is silent ends the statement itself.
	eventually(t, func() bool {
		proxy.PauseAfter(1 << 20)
		defer proxy.Heal()
		start := time.Now()
		err := s.Read(t.Context(), source.Query{Limit: 1000}, new(source.Page))
		sourcetest.Transient(t, err, nil)
		t.Log(err)
		if took := time.Since(start); took > time.Minute {
			t.Fatalf("after %v: %v", took, err)
		}
		return strings.Contains(err.Error(), "statement time limit has passed")
	})
	if p := readInTime(t, s, source.Query{Limit: 10}); len(p.Rows) != 10 {
		t.Fatalf("%d rows afterwards", len(p.Rows))
	}
}

func TestStatementTimeLimit(t *testing.T) { eachProduct(t, testStatementTimeLimit) }

func testStatementTimeLimit(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY)")
	limited := open(t, b.server.URL("", "", b.name), func(o *mysql.Options) { o.StatementTimeout = 1500 * time.Millisecond })
	s := limited.Shard(source.Spec{Table: "t", ID: "id"})
	readInTime(t, s, source.Query{Limit: 1})
	locker := must.Get(b.admin.Conn(t.Context()))(t)
	defer func() { _ = locker.Close() }()
	must.Get(locker.ExecContext(t.Context(), "LOCK TABLES t WRITE"))(t)
	for name, shard := range map[string]source.Shard{"a page": s, "the columns": limited.Shard(source.Spec{Table: "t", ID: "id"})} {
		want := "Error 1969 (70100): Query execution was interrupted (max_statement_time exceeded)"
		if product.IsMySQL() {
			want = "Error 3024 (HY000): Query execution was interrupted, maximum statement execution time exceeded"
		}
		// The client gives up later, and before a server that is held up.
		eventually(t, func() bool {
			err := shard.Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
			sourcetest.Transient(t, err, nil)
			t.Log(name, err)
			return strings.Contains(err.Error(), want)
		})
	}
	// The server ends them: nothing is left behind that waits for the lock.
	eventually(t, func() bool {
		return b.query(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting%lock%' AND DB IS NULL AND INFO LIKE ?", "%"+b.name+"%`t`%") == "0"
	})
	must.Get(locker.ExecContext(t.Context(), "UNLOCK TABLES"))(t)
	readInTime(t, s, source.Query{Limit: 1})
}
