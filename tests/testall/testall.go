package testall

import (
	"flag"
	"os"
	"testing"
)

// On reports whether everything is to be run: with BRIDGE_TEST_ALL=1, and where tests are chosen by
// name (-run).
func On() bool {
	return os.Getenv("BRIDGE_TEST_ALL") != "" || flag.Lookup("test.run").Value.String() != ""
}

// Long leaves the test to `make test-all`.
func Long(t testing.TB) {
	t.Helper()
	if !On() {
		t.Skip("part of `make test-all` (BRIDGE_TEST_ALL=1)")
	}
}

// Beside is Long for a test that runs beside others.
func Beside(t *testing.T) {
	t.Helper()
	Long(t)
	t.Parallel()
}

// Require fails a test that does what `make test` has no time for and has not called Long.
func Require(t testing.TB, what string) {
	t.Helper()
	if !On() {
		t.Fatalf("the test %s: begin it with testall.Long(t)", what)
	}
}

// Pick returns the size that a test has in `make test`, or the one that it has in `make test-all`.
func Pick[T any](short, all T) T {
	if On() {
		return all
	}
	return short
}

// Cases is Pick where the size is how many cases of one kind a test runs, one after the other:
// random lives, steps of a crash table, or kills of a program. `make test` runs some of each kind
// with the race detector. `make test-rest` runs all of them without it, ten to twenty times as
// fast. Where it is the goroutines of one case that meet by chance, take Pick: with the race
// detector they are scheduled at random.
func Cases[T any](short, all T) T { return Pick(short, all) }
