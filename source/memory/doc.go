// Package memory is a table in memory: the twin of the real sources for tests of what stands behind a source.
//
// It passes the suite in source/sourcetest. Hooks make it fail, and a clock of the test's own drives it.
package memory
