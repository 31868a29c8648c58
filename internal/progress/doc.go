// Package progress keeps how far one shard is published, from the store and from messages of the
// bus (decision 17, rules 11, 15, 16, 18 and 26 to 28). It does no I/O but reading parts from the
// store, and has no clock and no lock: a [Progress] serves one goroutine at a time.
//
// # Terms
//
//	tail      the highest row with the origin tail: the position rises to no other row
//	ahead     ids above the position that are on the bus; the tail skips them
//	floor     rows at or below it are not published, because START or a person left them out
//	since     messages of epochs below it do not count
//	low       below it nothing is left to publish, as a message of a release stream said
//	rebuild   the progress is made from the bus, because the store had none
//
// # While a shard is stopped
//
// Catch-up calls [Open], then for each chunk of messages of a topic-partition [Progress.Note],
// [Progress.Flush], and Store.Apply with what Flush returns, together with the offsets, and
// [Progress.Saved]. What was applied is all that a kill leaves: Open goes on from there.
//
// # While a shard runs
//
// Its progress is opened again with the options of the database, whose clock then holds, and has
// [Progress.Advance] called for each batch that the bus has acknowledged. Messages that are read
// meanwhile come in by Note and [Progress.Fill], which moves no position. A progress is what the
// store has: it is opened again where the store has not taken a change.
//
// Where a topic-partition of the stream began late, [Progress.TrustLow] follows each Open.
//
// A nominated row (rule 26) is left out of Passed and of Filled: it becomes, or stays, a gap until
// a poll finds that the view has it.
//
// # Memory
//
// Besides 8 bytes for each message since the last Flush, Options.MaxBytes of saved parts of the
// ledger, as much of ids that are ahead, and about 110 bytes a part of either, which has 256 to
// 1024 ranges of ids when it is full. All other parts are only in the store. So ids in random order
// cost time, not memory, and none is forgotten.
package progress
