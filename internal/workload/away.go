package workload

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// Errors of a MySQL server after which a transaction is tried anew: it was chosen to end a deadlock, waited too long for a
// lock, or the server starts, ends, or has too many connections.
var passing = []uint16{1213, 1205, 1040, 1053, 1152, 1158, 1159, 1160, 1161, 1927, 4031}

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
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// busy is SQLite's primary result code for a file that another connection writes to.
const busy = 5
