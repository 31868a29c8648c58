// Package memory is a table in memory: the twin of the real sources for tests of what stands behind a source.
//
// It hands out ids, keeps rows in open transactions out of sight, replaces rows by their keys, and can pretend to be a replica.
// It passes the suite in source/sourcetest. Hooks make it fail, and a clock of the test's own drives it.
package memory
