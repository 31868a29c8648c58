// Package deadletter reads the dead letters of a bus from the beginning.
//
// The same dead letter may be there several times: after a kill, or because the bus refused the
// event again when it was resent. [Read] returns it once, with a count. Two dead letters are the
// same when they are about the same event of the same table.
package deadletter
