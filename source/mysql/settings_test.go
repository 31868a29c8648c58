package mysql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// worstGlobals are global values that change results or cut answers, for the sessions that take
// them over. A server that does not know one is not asked for it.
var worstGlobals = []string{
	"sql_select_limit = 0",
	"max_join_size = 1",
	"sql_big_selects = 0",
	"sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH'",
	"sql_mode = 'ORACLE'",
	"sql_auto_is_null = 1",
	"sql_quote_show_create = 0",
	"sql_safe_updates = 1",
	"time_zone = '+05:30'",
	"autocommit = 0",
	"character_set_client = latin1",
	"character_set_connection = ucs2",
	"character_set_results = latin1",
	"collation_connection = utf8mb4_bin",
	"transaction_isolation = 'SERIALIZABLE'",
	"tx_isolation = 'SERIALIZABLE'",
	"group_concat_max_len = 4",
	"div_precision_increment = 0",
	"net_write_timeout = 20",
	"net_read_timeout = 20",
	"wait_timeout = 20",
	"max_statement_time = 3",
	"max_execution_time = 3000",
	"information_schema_stats_expiry = 31536000",
	"show_gipk_in_create_table_and_information_schema = OFF",
	"system_versioning_asof = '2020-01-01 00:00:00'",
	"query_cache_type = 1",
	"tmp_table_size = 1024",
	"max_heap_table_size = 16384",
	"tmp_memory_table_size = 0",
	"max_length_for_sort_data = 4",
	"max_sort_length = 8",
	"eq_range_index_dive_limit = 1",
	"range_optimizer_max_mem_size = 1",
	"optimizer_switch = 'index_merge=off,mrr=on,derived_merge=off'",
	"completion_type = 1",
	"default_week_format = 3",
	"big_tables = 1",
	"old_mode = ''",
	"init_connect = 'SET sql_select_limit = 1, sql_mode = ANSI'",
}

// newWorstBase is a base on a server whose global variables are as bad as can be, read by a login
// that may SELECT.
func newWorstBase(t *testing.T, server *testenv.DatabaseServer, changes ...func(*mysql.Options)) base {
	t.Helper()
	b := base{server: server, name: fmt.Sprintf("worst_%d", worstBases.Add(1)), log: new(sourcetest.Log)}
	b.admin = administrator(t, server, "")
	b.exec(t, "CREATE DATABASE "+b.name+" CHARACTER SET utf8mb4")
	b.exec(t, "GRANT SELECT ON "+b.name+".* TO reader@'%'")
	b.admin = administrator(t, server, b.name)
	b.source = b.open(t, server.URL("reader", "p", b.name), changes...)
	return b
}

var worstBases atomic.Uint64

// administrator returns a pool whose sessions have set up themselves what those who write need.
func administrator(t *testing.T, server *testenv.DatabaseServer, database string) *sql.DB {
	t.Helper()
	cfg := must.Get(driver.ParseDSN(server.DSN("", "", database)))(t)
	cfg.MultiStatements = true
	cfg.Params = map[string]string{"autocommit": "1", "sql_select_limit": "1000000", "sql_mode": "''", "sql_auto_is_null": "0", "sql_safe_updates": "0", "wait_timeout": "600", "completion_type": "0"}
	if server.IsMariaDB() {
		cfg.Params["max_statement_time"], cfg.Params["system_versioning_asof"] = "60", "DEFAULT"
	}
	connector := must.Get(driver.NewConnector(cfg))(t)
	pool := sql.OpenDB(connector)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

func startWorst(t *testing.T, product testenv.Product) *testenv.DatabaseServer {
	t.Helper()
	server := product.Start(t)
	root := server.Root(t)
	root.SetMaxOpenConns(1)
	must.Get(root.Exec("CREATE USER reader@'%' IDENTIFIED BY 'p'"))(t)
	const unknown, notGlobal = 1193, 1238
	known := 0
	for _, worst := range worstGlobals {
		_, err := root.Exec("SET GLOBAL " + worst)
		switch n := numberOf(err); {
		case err == nil:
			known++
		case n != unknown && n != notGlobal && !strings.Contains(worst, "ORACLE"):
			t.Fatalf("%s: %v", worst, err)
		}
	}
	if known < 25 {
		t.Fatalf("only %d variables are known", known)
	}
	return server
}

func TestNoGlobalVariableChangesWhatIsRead(t *testing.T) {
	testall.Long(t)
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		server := startWorst(t, product)
		conform(t, func(t *testing.T) base { return newWorstBase(t, server, refreshAlways) })
		t.Run("statements have their own time limit", func(t *testing.T) {
			b := newWorstBase(t, server)
			// What MySQL cuts short says 1.
			if got, err := b.source.Query(t.Context(), "SELECT SLEEP(3.5) AS v", "v"); err != nil || got[0] != "0" {
				t.Error(got, err)
			}
		})
		if server.IsMariaDB() {
			t.Run("a table with versions is read as it is now", func(t *testing.T) {
				b := newWorstBase(t, server)
				b.exec(t, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY) WITH SYSTEM VERSIONING; INSERT INTO t VALUES (1), (2)")
				sourcetest.Holds(t, b.source.Shard(source.Spec{Table: "t", ID: "id"}), 2)
			})
		} else {
			t.Run("a primary key that the server made is seen", func(t *testing.T) {
				b := newWorstBase(t, server)
				b.exec(t, "SET sql_generate_invisible_primary_key = 1; CREATE TABLE t (name VARCHAR(20)); INSERT INTO t VALUES ('a'), ('b')")
				if p := sourcetest.Read(t, b.source.Shard(source.Spec{Table: "t", ID: "my_row_id"}), source.Query{Limit: 9}); len(p.Rows) != 2 || p.Rows[1].ID != 2 {
					t.Errorf("%d of 2 rows are read", len(p.Rows))
				}
				found := b.source.Inspect(t.Context(), []source.Expected{{Spec: source.Spec{Table: "t", ID: "my_row_id"}}}, 1)
				if findings := found.Tables[0].Findings; len(findings) > 0 {
					t.Errorf("found %v", findings)
				}
			})
		}
		t.Run("bridge check", func(t *testing.T) {
			b := newWorstBase(t, server)
			b.exec(t, "CREATE TABLE t (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL, created DATETIME(6) NOT NULL, UNIQUE KEY (name))")
			found := b.source.Inspect(t.Context(), []source.Expected{{Spec: source.Spec{Table: "t", ID: "id", Key: []string{"name"}, Created: "created", UniqueKey: true}}}, 1)
			if product := map[bool]string{true: "MariaDB", false: "MySQL"}[server.IsMariaDB()]; !strings.HasPrefix(found.Server.Summary, product) {
				t.Errorf("summary %q", found.Server.Summary)
			}
			for _, f := range found.Tables[0].Findings {
				// The zone of the server is worth a note.
				if f.Code != "time-zone" {
					t.Errorf("found %s", f)
				}
			}
			if traits, err := b.source.Shard(source.Spec{Table: "t", ID: "id"}).Traits(t.Context()); err != nil || !traits.Evidence || !traits.Writer {
				t.Errorf("%+v, %v", traits, err)
			}
		})
	})
}

func numberOf(err error) uint16 {
	var refused *driver.MySQLError
	if errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}

// One node is a cluster, too: its session must take the setting, wait whatever the globals say, and
// go back.
func TestKeysWaitForAGaleraCluster(t *testing.T) {
	const library = "/usr/lib/galera/libgalera_smm.so"
	if _, err := os.Stat(library); err != nil {
		t.Skipf("Galera is not installed: %v", err)
	}
	server := testenv.StartMariaDB(t, "--wsrep-on=ON", "--wsrep-provider="+library, "--wsrep-cluster-address=gcomm://", "--binlog-format=ROW",
		"--innodb-autoinc-lock-mode=2", "--wsrep-node-address=127.0.0.1", "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:0;ist.recv_addr=127.0.0.1:0")
	eventually(t, func() bool {
		var name, state string
		return server.Root(t).QueryRow("SHOW STATUS LIKE 'wsrep_ready'").Scan(&name, &state) == nil && state == "ON"
	})
	b := newBase(t, server)
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(50) NOT NULL UNIQUE)")
	b.exec(t, "INSERT INTO t VALUES (1, 'a'); SET GLOBAL wsrep_dirty_reads = ON")
	source1 := b.login(t, "SELECT ON t")
	s := source1.Shard(source.Spec{Table: "t", ID: "id", Key: []string{"name"}, UniqueKey: true})
	traits, err := s.Traits(t.Context())
	if err != nil || !traits.Writer || !strings.Contains(traits.WriterWhy, "wsrep_sync_wait") || traits.Evidence {
		t.Errorf("traits %+v, %v", traits, err)
	}
	waits := func() string {
		return b.query(t, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_causal_reads'")
	}
	before := waits()
	sourcetest.Same(t, byKey(t, s, texts("a"), texts("b")), []uint64{1}, "by keys")
	between := waits()
	sourcetest.Read(t, s, source.Query{Limit: 9})
	if after := waits(); before == between || between != after {
		t.Errorf("causal reads: %s, after a read by keys %s, after a page %s", before, between, after)
	}
}
