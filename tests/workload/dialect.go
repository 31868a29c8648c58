package workload

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Dialect is the SQL of the database.
type Dialect int

// The dialects.
const (
	// MySQL is that of MySQL, MariaDB and what speaks their protocol.
	MySQL Dialect = iota
	// SQLite is that of SQLite 3.
	SQLite
)

// columns are those of every table of a workload, besides the id.
const columns = "entity, token, body"

// createTable returns the statement for a table of rows.
func (d Dialect) createTable(name string) string {
	if d == SQLite {
		return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	entity TEXT NOT NULL UNIQUE,
	token TEXT NOT NULL,
	body TEXT NOT NULL,
	created TEXT NOT NULL DEFAULT (strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')))`, name)
	}
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
	entity varchar(64) NOT NULL,
	token varchar(64) NOT NULL,
	body varchar(255) NOT NULL,
	created datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	UNIQUE KEY entity (entity)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`, name)
}

// createCounters returns the statement for a table of counters.
func (d Dialect) createCounters(name string) string {
	if d == SQLite {
		return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (name TEXT PRIMARY KEY, num INTEGER NOT NULL)", name)
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (name varchar(64) PRIMARY KEY, num bigint unsigned NOT NULL) ENGINE=InnoDB", name)
}

// begin returns the statement that begins a transaction.
func (d Dialect) begin() string {
	if d == SQLite {
		return "BEGIN IMMEDIATE"
	}
	return "START TRANSACTION"
}

// whatIsThere returns the query for the tokens of n entities. It waits for transactions that are
// not finished yet.
func (d Dialect) whatIsThere(table string, n int) string {
	query := "SELECT entity, token FROM " + table + " WHERE entity IN (" + placeholders(n) + ")"
	if d == MySQL {
		query += " FOR UPDATE"
	}
	return query
}

func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// duplicateKey is MySQL's error number, constraint SQLite's primary result code.
const (
	duplicateKey = 1062
	constraint   = 19
)

// isDuplicate reports whether a statement failed because a key exists.
func isDuplicate(err error) bool {
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		return server.Number == duplicateKey
	}
	var coded interface{ Code() int }
	return errors.As(err, &coded) && coded.Code()&0xff == constraint
}
