// Package shard is the way of a row: it reads a shard page by page, encodes the rows, publishes them
// and saves the position.
//
// One [Shard] has one owner goroutine. The owner alone reads and encodes, so the order of its reads is
// the order on the bus. While it makes a batch of one page of a backlog, the next page is read ahead.
// Publishing runs beside it, one batch after the other, and saving beside that: while a batch is in
// flight the next page is read, and while a position is written the next batch is in flight. [Limits]
// bounds the bytes of all batches that are read, wait or are in flight; a slow bus slows reading down.
//
// # Types
//
// Each part owns its state, and nobody else writes its fields:
//
//   - owner is the loop: on each poll it has a page read, makes a batch of it and hands it over.
//   - reader runs every query, with retry, limits and the page ahead. It returns pages.
//   - tail says which rows of a page may go out, and which late ones; gaps keeps the ledger for it.
//   - changes is the second cursor, far its part for updates in flight. It nominates.
//   - publishedRows and idWatch notice ids that are used again, server another server that answers.
//   - nominations, rereader, resender and absence publish what something else than the tail has found.
//   - view decides what is news, builder makes batches.
//   - publisher, sender, unsaved and saver bring batches to the bus and into the checkpoint.
//   - retrier waits for source, store and bus; tracker keeps the status.
//
// # Guarantees
//
// A position is saved after the bus has acknowledged everything up to it, never before. A shard that cannot go on by
// itself (a missing table, a refused message without a dead-letter destination) stops alone; whatever heals by itself is
// waited for.
package shard
