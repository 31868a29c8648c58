// Package shard is the way of a row: it reads a table page by page, encodes the rows, publishes them
// and saves the position.
//
// A [Shard] runs attempts, each with three loops that overlap. The owner alone reads and encodes, so
// the order of its reads is the order on the bus. The publisher has one batch at the bus at a time.
// The saver makes durable what was acknowledged. [Limits] bounds the bytes of all batches that are
// read, wait or are in flight; a slow bus slows reading down.
//
// # Types
//
// Each type owns its state:
//
//   - retrier waits for source, store and bus, and shows meanwhile that a loop lives.
//   - reader runs every query and returns a page; it reads one page ahead.
//   - tail finds the rows that may go out, gaps keeps the ledger, server the traits of the server.
//   - changes is the second cursor; idWatch and publishedRows notice ids that are used again.
//   - view decides what rows are news of; builder makes a batch of rows and decisions.
//   - nominations and resender publish what others name. They read through rereader, and absence
//     proves that an entity is gone.
//   - publisher sends batches through sender; unsaved is what the bus has acknowledged.
//   - recovery, recollection and snapshot bring store, bus and view together at the start.
//
// # Guarantees
//
// A position is saved after the bus has acknowledged everything up to it, never before. A shard that
// cannot go on by itself (a missing table, a refused message without a dead-letter destination) stops
// alone; what heals by itself is waited for.
package shard
