// Package mysql reads shards from MariaDB, MySQL and servers that speak their protocol, with SELECT
// on the table and nothing else.
//
// # One statement a page
//
// A page is one UNION ALL of two parts: one row with the database's clock, the highest id of the
// table and the server's identity, and the rows after the read position. InnoDB gives the
// statement one read view, so both parts see one moment, and the first row is there when the table
// has no row. Neither part makes a temporary table or a sort: the server reads as many index
// entries as the page has rows, and a test checks its handler counters. A LEFT JOIN would return
// the same, but MariaDB fills a temporary table with everything above the position to sort it.
//
// A table may lack a unique index over the id; cutPrimary says when it is read anyway.
//
// # Rows by their keys
//
// Rows are looked up in the unique index that proves that an entity is a single row, in statements
// of up to a hundred equalities, at the cost of one index lookup a key. Only the columns of that
// index are compared; the caller compares all columns of the key byte for byte.
//
// Texts are literals in the character set of their column. A literal in another set would keep the
// server from using the index, and a function around it is not safe. In a set that is not one of
// Unicode's the server itself writes the literal. Values without such a literal are compared row by
// row, which is slow: a byte without a character, a character with two encodings, an invalid date.
// So are all values where the only unique index is a hash (MariaDB's UNIQUE over a TEXT) or is
// ignored; bridge check warns of that.
//
// Where Traits says Writer, a key that is not found is absent. On Galera and in a multi-primary
// group a read by keys waits until the server has applied what the others have committed. A
// replica, a server behind a proxy, and a server that copies from another do not count as the
// writer.
//
// # Changes
//
// Changes are read from the index that begins with MODIFIED, and from that alone. InnoDB ends every
// index with the primary key. Where that is the id, an index on MODIFIED is in the order of
// (MODIFIED, id), and rows of one time are read once. Another table needs an index on both columns;
// with any other index the server sorts everything after the cursor at every read.
//
// # Sessions
//
// Every session runs in UTC with utf8mb4, READ COMMITTED, read-only and with a statement time limit
// on the server; the client's deadlines are a little longer. Before its first query it sets each
// variable that could change a result (plainSettings, productSettings), which a login with SELECT
// may do. A test reads with the worst global values. A connection is closed after an error. No
// default database is selected: tables are named in full, so that a missing database stops only its
// own streams.
//
// # Columns
//
// SHOW COLUMNS and SHOW INDEX describe a table; they need no privilege beyond SELECT. They are read
// again every [Options.RefreshEvery], ten times as seldom while only the head of the table is read,
// and at once when a page fails on a column or does not prove that the columns are what they were.
// The proof comes with the statement of the page: the types of its result, also of columns that are
// read by an expression; no NULL in a column that is NOT NULL; `SELECT *` in a part without rows,
// which the server refuses once a column is added; and an answer about LONGTEXT columns of MariaDB,
// whose JSON is a LONGTEXT with a CHECK (documents). Values come as the row after ALTER TABLE has
// them, with the first page. A login with SELECT on single columns sees only those, in the same
// form, and an added one within RefreshEvery of its grant.
//
// Values have the normal form of source.Kind. FLOAT is read as DOUBLE because the server would
// round its text to six digits. Rows with an id of 0 or below are not read.
package mysql
