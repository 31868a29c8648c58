// Package demo is what surrounds the engine in `bridge demo`: a shop that writes to an SQLite
// database, a subscriber that shows events as they arrive, and a judge that compares the bus with
// what was written. [Stage] runs them around a bridge that cmd/bridge has configured and opened.
//
// # The shop
//
// [Writers] fill three tables that show every way in which bridge notices a change:
//
//   - products: updated in place, replaced under a new id, deleted by a column; a MODIFIED column
//     lets the second cursor find updates.
//   - stock: no MODIFIED column; rows are replaced, updated in place and deleted for good, which a
//     reconcile finds.
//   - orders: a log that is only appended to and purged. A checkout draws the id of an order before
//     it is paid, so that a slow payment commits a row late; now and then an import inserts many.
//
// [Record] holds which states each entity had, and when. tests/workload has writers for tests,
// whose tables are all alike; these are made to be looked at.
//
// # The comparison
//
// [Compare] compares the stream, which [Subscriber] reads with nats.go alone, with the record. A
// state is lost when it has no event although its entity still has it, or had it for longer than
// [ReadWithin]. A state that was over sooner may never have been read: bridge publishes states, not
// statements. The last event of each entity must be its last state.
package demo
