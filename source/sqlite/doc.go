// Package sqlite reads shards from an SQLite database file beside the application that writes it,
// without writing to it.
//
// # One statement a page
//
// A page is one UNION ALL of two parts: one row with the schema version and the highest id of the
// table, and the rows after the read position. SQLite gives the statement one snapshot, so both
// parts see one moment, and the first row is there when the table has no row. The rows come in the
// order of an index, without a sort or a temporary table; a test checks the query plan. The clock
// is this process's, read right before the statement, so that a row that is not on the page was
// not committed then. CREATED is compared with it: both processes belong on one host.
//
// # Beside a writer
//
// Connections are opened with mode=ro and query_only. In WAL mode readers and writers do not block
// each other. With a rollback journal SQLite lets nobody commit for the milliseconds that a page is
// read: set a busy timeout in the application, or better, journal_mode=WAL. While a connection is
// open the application cannot leave WAL mode, and its last close leaves the -wal file in place. The
// source waits for a database that is locked (locking_mode=EXCLUSIVE, say), not yet there, or left
// with a journal by an application that was killed.
//
// In WAL mode SQLite shares memory through the -shm file. Run both processes on one host and as the
// same user: SQLite creates the -wal and -shm files for a reader, too, and the application could
// not write to those of another user. A reader that is neither the owner of the database nor the
// superuser therefore waits until the application has the database open.
//
// No code of this process may open and close the file by other means: that drops the locks that
// SQLite has on it (https://www.sqlite.org/howtocorrupt.html, section 2.2).
//
// When another file replaces the database, as a restore does, the next page comes from the new file
// and has another identity: source.Page.Server is the path and the file's number (inode).
//
// # Ids
//
// The id is an INTEGER PRIMARY KEY or another integer column that is NOT NULL and has a unique
// index of its own, up to 2^63-1. Rows with an id of 0 or below are not read; an id that is not an
// integer stops the shard. There is one writer at a time, so ids commit in the order in which they
// are allocated.
//
// An INTEGER PRIMARY KEY without AUTOINCREMENT gives the id of a deleted newest row to the next
// row, and any free id once 2^63-1 is used. The tail does not see a row under an id that was
// published already: a capability stream learns of it at the next reconcile, a release stream
// stops if it has polled in between. A truncated table does not differ from one whose newest rows
// were deleted: NextID is 0.
// Declare the id as INTEGER PRIMARY KEY AUTOINCREMENT where rows are ever deleted.
//
// # Rows by their keys
//
// A key is looked up in each form in which its value may be stored: as text, as bytes, as a number.
// Times, documents and booleans have too many forms. They are compared after the lookup by the
// other columns of the unique index; where such a column is the first of the index, the whole table
// is read.
//
// # Changes
//
// The index on MODIFIED has times in the order in which they are stored, so all of them must be
// stored alike, as the greatest one is. Texts in several zones, or texts beside numbers, wait for
// the next reconcile. Changes are read from the beginning of the cursor's second: when the rows of
// one second fill more than a page, they are read again for each of those pages.
//
// # Columns
//
// The columns of a table are read again when the schema version of a page is not the one they were
// read at. The names of declared types decide the Kind (namedKinds), else SQLite's rule of affinity
// (https://www.sqlite.org/datatype3.html, section 3.1). A text or number column that is CREATED or
// MODIFIED of the stream is a Timestamp.
//
// SQLite lets a row hold a value of any class in any column. Numbers in a Text, Decimal, Clock or
// Binary column come as their shortest decimal text, texts in a Binary column as their bytes, blobs
// elsewhere as the bytes they are, "true" and "false" in a BOOLEAN as 1 and 0, JSONB as the text of
// the same document. A value without a normal form in its column (a text in an Int column, 1.5 in
// an Int column, an infinite number, a text that is not a time, not JSON or not UTF-8) comes
// unchanged, and the encoder handles it by ON_BAD_VALUE. SQLite itself turns what looks like a
// number into one in a column of numeric affinity: '1.50' in a DECIMAL is 1.5.
//
// Times are ISO texts, "YYYY-MM-DD" and "YYYY-MM-DD HH:MM[:SS[.ffffff]]", with a T in the middle or
// a zone ("Z", "UTC", "+02:00", "+0200", "+02") at the end, and what Go's time.Time.String writes;
// those without a zone are in UTC, as CURRENT_TIMESTAMP is, or for DATETIME columns in
// [Options.TimeZone]. An integer is Unix time in [Options.Epoch], a REAL comes as the number that
// it is. Digits beyond the sixth of a second are cut. A DATE comes from a text or integer whose
// time of day is midnight.
package sqlite
