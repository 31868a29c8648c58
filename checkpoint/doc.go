// Package checkpoint keeps what must survive a restart: per shard the position, its gaps, and where the bus ended.
//
// # Guarantees
//
// [Store.Save] is atomic and durable when it returns. A store that is damaged, that is not ours, or that a newer version
// wrote is refused with an error that says so, and is never overwritten. Every value carries a checksum.
//
// # Adding a store
//
// Write a subpackage named after the technology with an Open function that returns a type which implements [Store], keep
// values in the form of [AppendState], run the suite in checkpoint/checkpointtest against it, and add its URL scheme
// to the switch in cmd/bridge.
package checkpoint
