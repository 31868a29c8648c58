// Package checkpoint keeps what must survive a restart: for each shard its position, its gaps, its
// view, and where the bus ended.
//
// # Guarantees
//
// [Store.Save] is atomic and durable when it returns. A damaged store, a
// foreign file and a store of a newer version are refused with an error that says so, and are never
// overwritten. Every value carries a checksum.
//
// # Adding a store
//
// Write a subpackage named after the technology with an Open function that returns a type which
// implements [Store], keep values in the form of [AppendState], run the suite in
// checkpoint/checkpointtest against it, and add its URL scheme to the switch in internal/app.
package checkpoint
