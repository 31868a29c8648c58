// Package monitoring makes what people watch bridge with: the board for Grafana and the alerts for
// Prometheus. It serves the tests that write and compare those files; the program does not import
// it.
//
// # Terms
//
//	metric  a row of the table in docs/operations.md, which a test compares with the registry
//	panel   one chart of the board; it answers a part of the question of its section
//	alert   a rule with a severity, what to do, and the paragraph of docs/operations.md about it
//	scale   a divisor of all times in the rules, so that a test sees an alert within seconds
//
// A metric that is neither on the board nor in DebugOnly fails a test, and so does a panel or an
// alert that asks for a metric or a label that does not exist. Change the list, then run
// `go test ./internal/monitoring -update`.
package monitoring
