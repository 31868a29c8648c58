// Command table-scan plays a scan of sharded tables on bridge: orders lie in 64 tables, and workers
// claim them from the bus instead of looking for status = 1. Then the same load is played with a
// scanner that polls the tables, and the statements of both are counted. See README.md.
//
//	make example-table-scan
package main
