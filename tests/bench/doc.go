// Package bench measures the static binary against real servers: how long it takes for a backlog
// beside its parts, what it uses, how late messages are, what quiet tables cost, and what the size
// of a table changes. `make bench` runs it; docs/performance.md says what is measured and how.
//
// All of it is in the tests, because the servers are those of tests/testenv: TestBench is the
// run, with flags of its own, TestHarness shows with tables of a few rows that the instrument
// works. What is to be measured apart from the rest runs in a child process, which is this test
// binary again.
package bench
