package mysql_test

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

func TestSession(t *testing.T) { eachProduct(t, testSession) }

func testSession(t *testing.T, product testenv.Product) {
	server := product.Shared(t)
	s := open(t, server.URL("", "", ""), func(o *mysql.Options) { o.StatementTimeout = 1500 * time.Millisecond })
	t.Run("refuses to write", func(t *testing.T) {
		name := server.NewDatabase(t)
		must.Fail(t, must.Err(s.Query(t.Context(), "CREATE TABLE "+name+".t (id INT)")), "READ ONLY")
	})
	t.Run("tells servers of the same names apart", func(t *testing.T) {
		b := newBase(t, server)
		must.Get(b.admin.Exec("CREATE TABLE t (id int PRIMARY KEY)"))(t)
		var page source.Page
		must.OK(t, b.source.Shard(source.Spec{Table: "t", ID: "id"}).Read(t.Context(), source.Query{Limit: 1, MaxBytes: 1 << 20}, &page))
		if has := regexp.MustCompile(` uid=[0-9]+$`).MatchString(page.Server); has == product.IsMySQL() {
			t.Errorf("the server is %q", page.Server)
		}
	})
}

func TestConnectionsAreResized(t *testing.T) { eachProduct(t, testConnectionsAreResized) }

// The least number of connections serves all kinds of reads side by side, and a bound that changes
// meanwhile holds soon.
func testConnectionsAreResized(t *testing.T, product testenv.Product) {
	const least, more = 7, 12
	server := product.Shared(t)
	b := newBase(t, server)
	for _, statement := range []string{
		"CREATE USER resized@'%' IDENTIFIED BY 'p'", "GRANT SELECT ON " + b.name + ".* TO resized@'%'",
		"CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)",
	} {
		b.exec(t, statement)
	}
	t.Cleanup(func() { _, _ = server.Root(t).Exec("DROP USER resized@'%'") })
	conns := func(most int) source.Conns { return source.Conns{Readers: mysql.Readers(most), Most: most} }
	s := open(t, server.URL("resized", "p", b.name), func(o *mysql.Options) { o.Conns = conns(least) })
	count := func() (n int) {
		must.OK(t, b.admin.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'resized'").Scan(&n))
		return n
	}
	ctx, end := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for i := range 24 {
		readers.Go(func() {
			shard := s.Shard(source.Spec{Table: "t", ID: "id"})
			var page source.Page
			var ids source.IDs
			for ctx.Err() == nil {
				err := shard.Read(ctx, source.Query{Limit: 2, MaxBytes: 1 << 20}, &page)
				if err == nil {
					err = shard.ReadIDs(ctx, []source.Range{{First: 1, Last: 2}}, i%2 == 0, 10, &ids)
				}
				if err == nil {
					_, err = shard.(source.HeadReader).ReadHead(ctx, time.Millisecond, &page)
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer readers.Wait()
	defer end()
	for _, most := range []int{least, more, least} {
		s.Resize(conns(most))
		// A pool closes more of its connections than it has to, and opens others meanwhile.
		eventually(t, func() bool {
			for range 20 {
				if count() > most || s.Ready(ctx) != nil {
					return false
				}
			}
			return true
		})
	}
}
