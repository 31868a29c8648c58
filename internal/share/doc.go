// Package share says which process works on which table, where several share one configuration
// (decision 24).
//
// A [Share] is a part of all tables. Which one a table is in follows from its name and the number
// of shares alone, so processes need not agree on anything but that number. The [Generations] of
// that number are on the bus: one process changes it, after it has shut out those that publish by
// the former one.
package share
