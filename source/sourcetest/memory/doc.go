// Package memory is a table in memory: the twin of the real sources, for tests of
// the code behind a source.
//
// It hands out ids, hides rows of open transactions, replaces rows by their keys, and
// can pretend to be a replica. It passes the suite in source/sourcetest. Hooks make it fail, and a
// clock of the test's own drives it.
package memory
