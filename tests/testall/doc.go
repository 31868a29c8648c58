// Package testall tells tests which of the two speeds they run at. `make test` answers within
// minutes: each package with the race detector, the conformance suites on real servers, one world
// for each bus. `make test-all` sets BRIDGE_TEST_ALL=1 and runs everything.
//
// A top-level test that takes longer than `make test` has time for calls [Long] or [Beside] in its
// first line. One that is worth running in a smaller size there takes the size from [Pick], or from
// [Cases].
// All are called from the test function itself: scripts/test reads off the source which tests
// `make test` leaves out or runs in a smaller size, says so, and runs exactly these for `make
// test-rest`.
package testall
