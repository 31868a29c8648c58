// Package shard is the way of a row: it reads a table page by page, encodes the rows, publishes
// them and commits how far it has come.
//
// A [Shard] runs attempts. The owner alone reads and encodes, so the order of its reads is that on
// the bus. Meanwhile the publisher sends the batch before and commits it once all of it is
// acknowledged. One batch at a time is between the decision about its rows and the store (pipe):
// nothing is decided behind what may never be published. [Limits] bounds the bytes of all that is
// read, waits or is in flight; a slow bus slows reading down.
//
// # Types
//
// Each type owns its state:
//
//   - retrier waits for source, store and bus, and shows meanwhile that a loop lives.
//   - opening has the progress be open, or decides where a shard begins.
//   - reader runs every query and returns a page.
//   - tail finds the rows that may go out, gaps keeps progress and ledger, server the traits of the
//     server.
//   - changes is the second cursor; publishedRows notices ids that are used again.
//   - entities has the view of the stream decide what rows are news of; builder makes a batch of
//     rows and decisions.
//   - schemas compares what the events look like with those published last.
//   - nominations publishes what others name, dead letters too. What has no row goes to
//     stream.Movers, which proves that.
//   - publisher stamps a batch by stamper, sends it through sender and commits it as facts by
//     stream.Feed.
//
// # An attempt
//
// It waits until the stream has caught up. Behind a publish of unknown outcome it first has the bus
// read (rule 9 of decision 17). Then it opens the progress from the store, and owner and publisher
// run until one of them cannot go on.
//
// # Guarantees
//
// A position is committed after the bus has acknowledged everything up to it, never before. A shard
// that cannot go on by itself (a missing table, a refused message without a dead-letter
// destination) stops alone; what heals by itself is waited for.
package shard
