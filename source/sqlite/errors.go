package sqlite

import (
	"errors"
	"fmt"
	"io/fs"

	sqlite "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"bridge/internal/option"
	"bridge/source"
)

// errStale tells that a page was read with columns of another schema or file.
var errStale = errors.New("the columns of the table changed")

// number returns SQLite's primary result code (https://www.sqlite.org/rescode.html), 0 when err is
// no error of SQLite.
func number(err error) int {
	var refused *sqlite.Error
	if errors.As(err, &refused) {
		return refused.Code() & 0xff
	}
	return 0
}

// isLocked reports whether err says that another connection holds a lock.
func isLocked(err error) bool {
	switch number(err) {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// mayBeStale reports whether err can come from columns or indexes that changed since they were
// read.
func mayBeStale(err error) bool {
	switch number(err) {
	case codes.SQLITE_ERROR, codes.SQLITE_SCHEMA:
		return true
	}
	return errors.Is(err, errStale)
}

// explain gives what a person has to mend the sentinel of its class and the remedy. Other errors
// are transient and stay.
func explain(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w: let the user that bridge runs as read the file and enter its directory", source.ErrDenied, err)
	}
	switch number(err) {
	case codes.SQLITE_NOTADB:
		return option.Errorf("%w: %w: the file is no SQLite database, or an encrypted one: correct the path in %s", source.ErrUnfit, err, option.SourceURL)
	case codes.SQLITE_CORRUPT:
		return fmt.Errorf("%w: %w: look at it with PRAGMA integrity_check and restore it", source.ErrUnfit, err)
	case codes.SQLITE_ERROR:
		return option.Errorf("%w: %w: if a column needs a function or collation of the application, leave it out with %s; "+
			"a condition %s must accept every value of its columns", source.ErrUnfit, err, option.Fields, option.Filter)
	case codes.SQLITE_PERM, codes.SQLITE_AUTH:
		return fmt.Errorf("%w: %w: let the user that bridge runs as read the file", source.ErrDenied, err)
	case codes.SQLITE_CANTOPEN:
		return fmt.Errorf("%w: let the user that bridge runs as read the file and, in WAL mode, write to the -shm file beside it", err)
	case codes.SQLITE_READONLY:
		return fmt.Errorf("%w: either the application was cut off while it wrote, and repairs the file when it opens it next; "+
			"or the database is in WAL mode and the user that bridge runs as may not write beside it", err)
	}
	return err
}
