// Package shard is the way of a row: it reads a shard page by page, encodes the records, publishes them and saves the
// position.
//
// One [Shard] has one owner goroutine. The owner alone reads and encodes, so the order of its reads is the order on the
// bus. It has one page of a backlog read while it makes a batch of the one before, and leaves the source alone until that is there. Publishing
// runs beside it, one batch after the other, and saving beside that: while a batch is in flight the next
// page is read, and while a position is written the next batch is in flight. [Limits] bounds the bytes of all batches
// that are read, wait or are in flight; a slow bus slows reading down.
//
// # Guarantees
//
// A position is saved after the bus has acknowledged everything up to it, never before. A shard that cannot go on by
// itself (a missing table, a refused message without a dead-letter destination) stops alone; whatever heals by itself is
// waited for.
package shard
