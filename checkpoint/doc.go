// Package checkpoint keeps what must survive a restart: for each shard its position, its gaps, its
// view, and the offsets at which the bus ended.
//
// # Terms
//
// A [State] is what one save of a shard changes. The view holds a [Known] for each entity of a
// capability stream: the row, digest and event that were published last, and the [Fate] of the
// entity. A [Journal] is a batch that is saved before it is published, so that a restart publishes
// the same events again. A [Run] is how far a reconcile has come.
//
// # Guarantees
//
// [Store.Save] is atomic, and durable when it returns. A damaged store, a foreign file and a store
// of a newer version are refused with an error that says so, and are never overwritten. Every value
// carries a checksum.
//
// # Adding a store
//
// Write a subpackage named after the technology with an Open function that returns a type which
// implements [Store], keep values in the form of [AppendState], run the suite in
// checkpoint/checkpointtest against it, and add its URL scheme to the switch in internal/app.
package checkpoint
