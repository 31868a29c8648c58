package workload

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// Errors of a MySQL server after which a transaction is tried again.
var passing = []uint16{
	deadlock, lockWait,
	// The server starts, ends, cannot be written to, or has too many connections; what lies between
	// has lost it.
	1040, 1053, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1290, 1836, 2006, 2013,
	// A connection or a statement was killed, 1467 while it took an id, or ran for too long.
	1317, 1467, 1927, 1969, 3024, 3169, 4031,
	// The table is away, or was changed meanwhile.
	1146, 1932, 1412, 1020,
}

// The error numbers of a deadlock and of a wait for a lock that took too long.
const (
	deadlock = 1213
	lockWait = 1205
)

// isConflict reports whether a statement was undone in favour of another transaction.
func isConflict(err error) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server) && (server.Number == deadlock || server.Number == lockWait)
}

// isRefused reports whether the server has said that a statement failed.
func isRefused(err error) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server)
}

// isAway reports whether err goes away by trying again.
func isAway(err error) bool {
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		return slices.Contains(passing, server.Number)
	}
	var network net.Error
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code()&0xff == busy
	}
	return errors.As(err, &network) || slices.ContainsFunc(cut, func(how error) bool { return errors.Is(err, how) })
}

// cut is what ends a connection or a statement in the middle, and what follows such an end.
var cut = []error{driver.ErrBadConn, mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync, io.EOF, io.ErrUnexpectedEOF, errDying, errNotDeleted}

// busy is SQLite's primary result code for a file that another connection writes to.
const busy = 5
