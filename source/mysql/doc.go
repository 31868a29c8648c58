// Package mysql reads shards from MariaDB, MySQL and servers that speak their protocol, with SELECT on the table and nothing else.
//
// # One statement a page
//
// A page is one UNION ALL of two parts: one row with the database's clock, the highest id of the table and the server's
// identity, and the records behind it. InnoDB gives the statement one read view, so all of it is one moment; the first row is
// there when no record is. Neither part makes a temporary table or a sort: the server reads as many index entries as the page
// has records (a test holds the handler counters to that). A LEFT JOIN would bring the same answer, but MariaDB fills a
// temporary table with everything above the position to sort it.
//
// # Sessions
//
// Every session runs in UTC with utf8mb4, READ COMMITTED, read-only and with a statement time limit on the server; the
// client's deadlines lie a little above that. A connection that saw an error is closed, never used again. The default database is
// not selected: tables are always named in full, so that one missing database stops its streams and no other.
//
// # Columns
//
// The columns of a table come from SHOW COLUMNS and SHOW INDEX, which need no privilege beyond SELECT; on MariaDB, where JSON
// is LONGTEXT with a CHECK, SHOW CREATE TABLE tells it. They are read again every [Options.RefreshEvery], and at once when a page
// fails on a column or its types are not those of the page before. A column that was added is therefore seen within that
// time, one that was dropped at the next page. A login with SELECT on single columns only sees those, and JSON as text.
//
// Values take the normal form of source.Kind. FLOAT is read as DOUBLE because the server would round its text to six
// digits. Rows with an id of 0 or below are not read.
package mysql
