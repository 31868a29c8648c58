// Package store is the interface of the local cache of what the bus holds.
//
// A store holds one image for all shards of the process: the epoch, the progress of each shard and
// its parts, the view of each stream, and the registrations: which topic-partitions each stream
// reads, and how far. A view is read by entity and by row.
//
// # Guarantees
//
// A store may be old and may be lost; it is never mixed. What one [Store.Apply] changes is seen
// whole or not at all, by readers and after a kill. After a kill or a loss of power the store holds
// a prefix of what was applied: some last changes are missing, never one in the middle. What was
// applied before a [Store.Sync] that returned nil is there.
//
// So an offset that is applied in one batch with what was read up to it is never ahead of it.
//
// # Add an implementation
//
// Write checkpoint/store/<name> with an Open that returns a type with
// var _ store.Store = (*Store)(nil), and run storetest.Run against it. One that outlives the
// process is killed, too, while it applies storetest.CrashBatch, and storetest.Prefix checks what
// is left.
package store
