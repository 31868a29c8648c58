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
// # Rows by their keys
//
// Rows are looked up along the unique index that proves that an entity is a single row, in statements of up
// to a hundred equalities; the handler counters hold that to one look-up a key, too. The columns of that index are compared, further columns of KEY are not: the
// caller compares all of them byte for byte. Texts go as literals in the character set of their column, which the server itself writes
// where it is none of Unicode's: a literal in another set would keep it from the index, and a function around it is not safe.
// What has no such literal (a byte without a character, an encoding of which there are two, a date that no calendar has) is compared
// as it is read, row for row: right, and slow. So is everything where the only unique index is a hash (MariaDB's UNIQUE over a TEXT) or
// ignored; bridge check warns of that.
//
// A key that is not found is not there, if Traits says Writer: on Galera and in a multi-primary group a read by keys waits until the
// server has applied what the others have committed. A replica, a server behind a proxy, and any server that copies from another
// are not taken for the writer.
//
// # Changes
//
// What changed is read from the index that MODIFIED leads, and from that alone. InnoDB ends every index with the primary key, so where
// that is the id an index on MODIFIED is in the order of (MODIFIED, id), and no run of equal times is read twice. Another table wants an index on
// both columns; with any other the server sorts what lies behind the cursor at every read.
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
// time, one that was dropped at the next page. A table that is only glanced at is read a page of once in ten times that. A login
// with SELECT on single columns only sees those, and JSON as text.
//
// Values take the normal form of source.Kind. FLOAT is read as DOUBLE because the server would round its text to six
// digits. Rows with an id of 0 or below are not read.
package mysql
