// Package bench measures the built program on real servers: how long it takes for a backlog beside
// its parts, what it uses, how late messages are, what quiet tables cost, what the size of a table
// changes, and how other programs do. `make bench`, `make bench-large` and `make bench-peers` run
// it; docs/performance.md says what is measured and how.
//
// Its benchmarks print the usual lines, with a unit for each figure, for benchstat. A process is
// one round: it starts its servers, makes the tables that the chosen measurements need, and makes
// each measurement once. TestHarness shows with tables of a few rows that the instrument works.
package bench
