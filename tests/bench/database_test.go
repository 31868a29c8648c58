package bench

import (
	"database/sql"
	"fmt"
	"os"
	"testing"

	"bridge/tests/testenv"
)

// database is a database of one's own on a real server.
type database struct {
	server *testenv.DatabaseServer
	name   string
	db     *sql.DB
	// reader may SELECT and nothing else.
	reader string
}

const readerPassword = "reader-secret"

// openDatabase starts a server, with this much memory for its pages unless that is empty, or uses
// the one of BRIDGE_TEST_MYSQL_DSN.
func openDatabase(t *testing.T, bufferPool string) *database {
	t.Helper()
	if bufferPool == "" || os.Getenv("BRIDGE_TEST_MYSQL_DSN") != "" {
		return newDatabase(t, testenv.MariaDB(t))
	}
	return newDatabase(t, testenv.StartMariaDB(t, withPool(bufferPool)...))
}

// withPool are the arguments of a server with this much memory for its pages.
func withPool(size string) []string {
	return []string{"--innodb-buffer-pool-size=" + size, "--innodb-log-file-size=256M"}
}

func newDatabase(t *testing.T, server *testenv.DatabaseServer) *database {
	t.Helper()
	d := &database{server: server}
	d.name = d.server.NewDatabase(t)
	d.db = d.server.Admin(t, d.name)
	d.reader = "reader_" + d.name[max(0, len(d.name)-12):]
	d.exec(t, fmt.Sprintf("CREATE OR REPLACE USER '%s'@'%%' IDENTIFIED BY '%s'", d.reader, readerPassword))
	d.exec(t, fmt.Sprintf("GRANT SELECT ON `%s`.* TO '%s'@'%%'", d.name, d.reader))
	t.Cleanup(func() {
		// A private server is gone by now.
		_, _ = d.db.Exec(fmt.Sprintf("DROP USER '%s'@'%%'", d.reader))
	})
	return d
}

func (d *database) exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := d.db.Exec(statement); err != nil {
		t.Fatalf("%.300s: %v", statement, err)
	}
}

// url is BRIDGE_SOURCE_URL, dsn the same for the driver.
func (d *database) url() string { return d.server.URL(d.reader, readerPassword, d.name) }
func (d *database) dsn() string { return d.server.DSN(d.reader, readerPassword, d.name) }

// columns are those of the tables, of about 300 bytes a row.
const columns = `id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
	data_center varchar(64) COLLATE utf8mb4_bin NOT NULL,
	revision varchar(64) COLLATE utf8mb4_bin NOT NULL,
	app_name varchar(64) NOT NULL,
	params text,
	deleted tinyint(1) NOT NULL DEFAULT 0,
	gmt_create timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)`

// create makes an empty table.
func (d *database) create(t testing.TB, table string) {
	t.Helper()
	d.exec(t, fmt.Sprintf("CREATE TABLE %s (%s, UNIQUE KEY entity (data_center, revision))", table, columns))
}

// written are the columns of rowsOf.
const written = "data_center, revision, app_name, params"

// rowsOf is what a row of the number that the expression n says holds in the columns written.
func rowsOf(n string) string {
	return fmt.Sprintf(`'DefaultDataCenter', md5(%[1]s), concat('order-center-', %[1]s %% 97),
		concat('protocol=bolt;zone=zone-', %[1]s %% 7, ';weight=', %[1]s %% 100, ';note=', sha1(%[1]s),
			';services=com.example.order.OrderFacade:1.0,com.example.order.RefundFacade:', %[1]s %% 10, '.0;tags=canary,stable')`, n)
}

// fill makes a table of so many rows, committed an hour ago.
func (d *database) fill(t testing.TB, s *screen, table string, rows int) {
	t.Helper()
	d.insert(t, s, wide, table, rows)
	d.addKey(t, s, table)
}

// shape is how the rows of a table look.
type shape struct {
	// columns are all of them, written those that values sets, of the number seq.
	columns, written, values string
	// step is how many rows a statement inserts.
	step int
}

var wide = shape{columns: columns, written: written, values: rowsOf("seq"), step: 50_000}

// narrow rows take some 45 bytes.
var narrow = shape{
	columns: `id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
	data_center varchar(8) COLLATE utf8mb4_bin NOT NULL,
	revision varchar(16) COLLATE utf8mb4_bin NOT NULL,
	deleted tinyint(1) NOT NULL DEFAULT 0,
	gmt_create timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)`,
	written: "data_center, revision", values: "'dc1', hex(seq)", step: 1_000_000,
}

// insert makes a table of so many rows, committed an hour ago, that has no key but its id.
func (d *database) insert(t testing.TB, s *screen, of shape, table string, rows int) {
	t.Helper()
	d.exec(t, fmt.Sprintf("CREATE TABLE %s (%s)", table, of.columns))
	for from := 1; from <= rows; from += of.step {
		// With ids of their own: the server would burn some of those that it hands out to a
		// statement like this.
		d.exec(t, fmt.Sprintf(`INSERT INTO %s (id, %s, gmt_create)
			SELECT seq, %s, now(3) - interval 1 hour FROM seq_%d_to_%d`, table, of.written, of.values, from, min(from+of.step-1, rows)))
		s.far("filling "+table, int64(from), int64(rows))
	}
	s.say("filled %s with %d rows", table, rows)
}

// addKey gives a table its unique key, in one go: row by row the pages of a key that looks random
// would not stay in memory.
func (d *database) addKey(t testing.TB, s *screen, table string) {
	t.Helper()
	s.say("making the key of %s", table)
	d.exec(t, fmt.Sprintf("ALTER TABLE %s ADD UNIQUE KEY entity (data_center, revision)", table))
	d.exec(t, "ANALYZE TABLE "+table)
}

func (d *database) drop(t testing.TB, table string) {
	t.Helper()
	d.exec(t, "DROP TABLE "+table)
}

// spent is what the server has used so far, in CPU-seconds; 0 where it is not one of the tests'.
func (d *database) spent(t testing.TB) float64 {
	t.Helper()
	if d.server.Process == nil {
		return 0
	}
	cpu, err := cpuOf(d.server.Pid())
	if err != nil {
		t.Fatal(err)
	}
	return cpu
}

// questions is how many statements the server has answered so far.
func (d *database) questions(t testing.TB) int64 {
	t.Helper()
	var name string
	var n int64
	if err := d.db.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
