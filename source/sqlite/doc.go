// Package sqlite reads shards from an SQLite database file beside the application that writes it, without writing to it.
//
// # One statement a page
//
// A page is one UNION ALL of two parts: one row with the schema version and the highest id of the table, and the records
// behind it. SQLite gives the statement one snapshot, so all of it is one moment; the first row is there when no record is. The
// records come by index as they are asked for, without a sort or a temporary table (a test holds the query plan to that). SQLite has
// no clock but its process's: it is read right before the statement, so that a row that the page does not hold was not
// committed then. CREATED is compared with it, so both processes belong on one host, as SQLite wants it anyway.
//
// # Beside a writer
//
// Connections are opened with mode=ro and query_only. In WAL mode readers and writers do not hinder one another: the
// application never sees SQLITE_BUSY because of a page. With a rollback journal SQLite lets nobody commit while a page is
// read, some milliseconds: set a busy timeout in the application, or better, journal_mode=WAL. While a connection is open the
// application cannot leave WAL mode, and its last close leaves the -wal file in place. A database that is locked
// (locking_mode=EXCLUSIVE, say), not yet there, or left with a journal by an application that was killed is waited for.
//
// In WAL mode SQLite shares memory through the -shm file, so both processes run on one host, best as the same user: SQLite
// creates the -wal and -shm files for a reader, too, and the application could not write to those of another user. A reader that is
// neither the owner of the database nor the superuser therefore waits until the application has the database open.
//
// No code of this process may open and close the file by other means: that drops the locks that SQLite holds on it
// (https://www.sqlite.org/howtocorrupt.html, section 2.2).
//
// A file that is replaced by another, as a restore does, is noticed at the next page, which comes from the new file under another
// identity: source.Page.Server is the path and the file's number (inode).
//
// # Ids
//
// The id is an INTEGER PRIMARY KEY or another integer column that is NOT NULL and has a unique index of its own, up to 2^63-1. Rows
// with an id of 0 or below are not read; an id that is no integer stops the shard. There is one writer at a time, so ids commit in
// the order in which they are handed out.
//
// An INTEGER PRIMARY KEY without AUTOINCREMENT gives the id of a deleted newest row to the next row, and when the id
// 2^63-1 is taken any free one. A row under an id that was published already is not seen by the tail: a capability stream
// learns of it at the next reconcile, a release stream never. Nor can a truncated table be told from one whose newest rows were
// deleted: NextID is 0. Declare the id as INTEGER PRIMARY KEY AUTOINCREMENT where rows are ever deleted.
//
// # Rows by their keys
//
// A key is looked for in each form in which its value may be stored: as a text, as bytes, as a number. Times, documents and booleans have
// too many forms: behind other columns of the unique index these find the rows, and where such a column comes first in the index, the
// whole table is read. What comes is equal byte for byte.
//
// # Changes
//
// The index on MODIFIED has times in the order in which they are stored, so all of them must be stored alike; the greatest one tells how. Texts
// in several zones, or texts beside numbers, wait for the next reconcile. Changes are read from the beginning of the cursor's second: rows
// of one second that are more than a page are read again for every page of them.
//
// # Columns
//
// The columns of a table are read again when the schema version of a page is not the one they were read at. The names of
// declared types decide the Kind, else SQLite's rule of affinity (https://www.sqlite.org/datatype3.html, section 3.1):
//
//	Int        BOOLEAN, BIT, YEAR, LONG, SERIAL; whatever has INT in its name
//	Decimal    DECIMAL, NUMERIC, NUMBER, MONEY
//	Float      REAL, FLOAT, DOUBLE
//	Text       CHAR, VARCHAR, TEXT, CLOB; no type, ANY, UUID and all that is not named here
//	Binary     BLOB, BINARY, VARBINARY, BYTEA
//	JSON       JSON, JSONB
//	Date       DATE
//	Clock      TIME
//	Timestamp  DATETIME, TIMESTAMP; a text or number column that is CREATED or MODIFIED of the stream
//
// SQLite lets a row hold a value of any class in any column. Numbers in a Text, Decimal, Clock or Binary column come as their
// shortest decimal text, texts in a Binary column as their bytes, blobs elsewhere as the bytes they are, "true" and "false" in a BOOLEAN
// as 1 and 0, JSONB as the text of the same document. What has no normal form in its column (a text in an Int column, 1.5 in
// an Int column, an infinite number, a text that is no time, no JSON or no UTF-8) comes as it stands, for the encoder to judge by
// ON_BAD_VALUE. SQLite itself turns what looks like a number into one in a column of numeric affinity: '1.50' in a DECIMAL is 1.5.
//
// Times are texts "YYYY-MM-DD", "YYYY-MM-DD HH:MM[:SS[.ffffff]]", with a T in the middle or a zone behind it ("Z", "+02:00",
// "+0200", and what Go's time.Time.String writes); those without a zone are in UTC, as CURRENT_TIMESTAMP is, or for DATETIME
// columns in [Options.TimeZone]. An INTEGER is Unix time in [Options.Epoch]. A REAL is a Julian day below 5373484.5, else Unix time, as
// for SQLite's modifier "auto". Digits beyond the sixth of a second are cut. A DATE is taken from a text or number whose
// time of day is midnight.
package sqlite
