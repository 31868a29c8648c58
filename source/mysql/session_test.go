package mysql_test

import (
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/tests/testenv"
)

func TestSession(t *testing.T) { eachProduct(t, testSession) }

func testSession(t *testing.T, product testenv.Product) {
	server := product.Shared(t)
	// Global settings that would change what is read must not reach the session.
	admin := server.Root(t)
	for set, back := range map[string]string{
		"sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES,NO_BACKSLASH_ESCAPES'": "sql_mode = DEFAULT",
		"time_zone = '+05:30'": "time_zone = 'SYSTEM'",
		"autocommit = 0":       "autocommit = 1",
	} {
		if _, err := admin.Exec("SET GLOBAL " + set); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := admin.Exec("SET GLOBAL " + back); err != nil {
				t.Error(err)
			}
		})
	}
	s := open(t, server.URL("", "", ""), func(o *mysql.Options) { o.StatementTimeout = 1500 * time.Millisecond })
	expected := map[string]string{
		"@@session.time_zone":                "+00:00",
		"@@session.character_set_client":     "utf8mb4",
		"@@session.character_set_connection": "utf8mb4",
		"@@session.character_set_results":    "utf8mb4",
		"@@session.sql_mode":                 "ALLOW_INVALID_DATES",
		"@@session.autocommit":               "1",
		"@@session.wait_timeout":             "600",
		"@@session.net_write_timeout":        "60",
		"@@session.net_read_timeout":         "30",
		// More than any table has rows.
		"@@session.sql_select_limit":   "9223372036854775807",
		"@@session.sql_big_selects":    "1",
		"COALESCE(DATABASE(), 'none')": "none",
	}
	ofProduct := map[string]string{"@@session.tx_isolation": "READ-COMMITTED", "@@session.tx_read_only": "1", "@@session.max_statement_time": "1.5"}
	if product.IsMySQL() {
		ofProduct = map[string]string{
			"@@session.transaction_isolation": "READ-COMMITTED", "@@session.transaction_read_only": "1", "@@session.max_execution_time": "1500",
			"@@session.information_schema_stats_expiry": "0",
		}
	}
	maps.Copy(expected, ofProduct)
	for expression, want := range expected {
		got, err := s.Query(t.Context(), "SELECT "+expression+" AS v", "v")
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, %v; want %q", expression, got, err, want)
		}
	}
	t.Run("refuses to write", func(t *testing.T) {
		name := server.NewDatabase(t)
		if _, err := s.Query(t.Context(), "CREATE TABLE "+name+".t (id INT)"); err == nil || !strings.Contains(err.Error(), "READ ONLY") {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("tells servers of the same names apart", func(t *testing.T) {
		b := newBase(t, server)
		if _, err := b.admin.Exec("CREATE TABLE t (id int PRIMARY KEY)"); err != nil {
			t.Fatal(err)
		}
		var page source.Page
		if err := b.source.Shard(source.Spec{Table: "t", ID: "id"}).Read(t.Context(), source.Query{Limit: 1, MaxBytes: 1 << 20}, &page); err != nil {
			t.Fatal(err)
		}
		if has := regexp.MustCompile(` uid=[0-9]+$`).MatchString(page.Server); has == product.IsMySQL() {
			t.Errorf("the server is %q", page.Server)
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) { eachProduct(t, testConnectionsAreBounded) }

func testConnectionsAreBounded(t *testing.T, product testenv.Product) {
	server := product.Shared(t)
	b := newBase(t, server)
	b.exec(t, "CREATE USER bounded@'%' IDENTIFIED BY 'p'")
	t.Cleanup(func() { _, _ = server.Root(t).Exec("DROP USER bounded@'%'") })
	s := open(t, server.URL("bounded", "p", b.name), func(o *mysql.Options) { o.MaxConns = 2 })
	done := make(chan error)
	for range 12 {
		go func() {
			_, err := s.Query(t.Context(), "SELECT SLEEP(0.1) AS v", "v")
			done <- err
		}()
	}
	most := 0
	for range 12 {
		if err := s.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		var n int
		if err := b.admin.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'bounded'").Scan(&n); err != nil {
			t.Error(err)
		}
		most = max(most, n)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if most < 2 || most > 3 {
		t.Fatalf("%d connections at once, want 2 and one for Ready", most)
	}
}

// A server that was restarted leaves broken connections in the pools, which cannot say that they
// end.
func TestCloseWithBrokenConnections(t *testing.T) {
	server := testenv.MariaDB(t)
	proxy := testenv.StartProxy(t, server.Addr)
	b := newBase(t, server)
	url := strings.Replace(server.URL("", "", b.name), server.Addr, proxy.Addr(), 1)
	o, err := mysql.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mysql.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Drop()
	for deadline := time.Now().Add(4 * time.Minute); proxy.Open() > 0; {
		if time.Now().After(deadline) {
			t.Fatal("connections stay open")
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
