// Package stream keeps what a stream has published: the last state of each entity, how far each
// shard is published, and what of the bus this covers. It reads from the bus what the store lacks,
// and writes the store (decisions 17 and 18).
//
// A TP is a topic-partition of Kafka or a stream of JetStream, and is named by the number of its
// registration, from 1: one that was made again, or lost its tail, gets another number (rules 10
// and 21). A registration is of one stream: two streams on a TP have two, which one reading serves.
//
// # What writes the store
//
// [Committer] applies all batches while bridge runs. Each has the offsets that it covers, so no
// offset is ahead of what the store has. A publisher calls Sending, publishes, and commits the
// messages as facts, or calls Unknown; behind an unknown outcome it calls CatchUp.Resolve.
//
// Two others write, too: reconcile has the store forget entities that are absent for long, and the
// commands on the checkpoint ([SetPosition], [Reset], [Rebuild], [Rename], [SetPause]) apply
// batches while bridge is stopped.
//
// # What reads the bus
//
// [CatchUp] does, into a [Feed] for each stream. Start reads all TPs to their ends and has the
// epoch synced; Run reads holes, looks up ends and compares anchors in the background. [Apply] is
// rule 6: which message of an entity its entry in a view follows. [Span] is rules 4, 5 and 20:
// which offsets of a TP the store may call covered, what is left to read of it, and by which
// messages it is known again. [Epoch] is rule 1, [MeaningHash] rule 12.
//
// The entities of late messages (rule 7) are named in the store with the offset that passes them,
// until their owners have decided: the feed nominates them once the stream is ready.
//
// # Locks
//
// One change of what the process knows of the bus is made at a time, under the token of the
// Committer: it is computed, written, and then installed. The one that has the token may wait for
// the store. Mutexes guard memory, each for a moment, and none is taken under another: that of a
// view with its movers, of the coverage (Committer.mu), of a shard's progress, of a stream that
// catches up, and of the list of TPs. On the way of a row they are taken alone, by the owner, or
// under the token, by the publisher. Under the mutex of a progress a part of it may be read.
//
// A reader has its TP (topicPartition.reading), then a worker's slot, and acquires the token for
// each chunk. To look the TPs of a stream up (stream.looking) or to make it ready
// (CatchUp.becoming) acquires the token for what that changes. Nobody waits for one of these with
// the token.
//
// # The view
//
// One [View] serves all shards of a capability stream, and decides what their rows are news of. An
// entity is the key of its messages. Its entry in the store says what its last message said. Where
// tables have entities of their own ([NewViewByTable]), the table is a part of the stored name;
// rows and messages are without it.
//
// The owner of a shard begins [Claims] for each batch, one batch at a time, has rows decided, makes
// events of those that are news and tells each event's id (Publish). The batch ends with Apply or
// Release:
//
//	c := v.Begin(shard)
//	decisions, err = v.Decide(ctx, c, rows, nil, decisions[:0])
//	decisions[i].Publish(event)              // for each that is news
//	err = v.Apply(ctx, facts, nil, c, commit) // or v.Release(c)
//
// Facts that are read of the bus come in without claims. Claims belong to the owner of the shard
// until its batch is handed over, then to the publisher.
//
// A decision that is news, or that moves an entity to another row, claims the entity. The claim
// holds the entry as it will be: a further row of the batch is decided behind it. Another shard
// that meets a claim, or an entry of another shard, nominates the entity (rule 29). So does a row
// older than the one of its entity (rule 17). A nominated row is not handled: it stays missing
// until a later read finds it in the view.
//
// [Movers] is the queue of nominated entities. It reserves an entity that nothing claims: until
// the reservation ends, every other row of the entity nominates it again. Then it reads the key
// in all tables, and the owner of the shard that has the row publishes, with permission
// (Permit). That owner reads the row again first, so the order of its reads is still the order
// on the bus (invariant 3). A reservation ends with the batch of that owner.
//
// Entries are looked up without a lock. Each change of the store is counted, by the hash of its
// entity, when it is installed; a decision looks up again the entities whose count has changed
// since, until none has.
//
// # Progress
//
// [Progress] is how far one shard is published, from the store and from messages of the bus (rules
// 11, 15, 16, 18 and 26 to 28). It does no I/O but reading parts from the store, and has no clock
// and no lock: it serves one goroutine at a time.
//
//	tail      the highest row with the origin tail: the position rises to no other row
//	ahead     ids above the position that are on the bus; the tail skips them
//	floor     rows at or below it are not published, because START or a person left them out
//	since     messages of epochs below it do not count
//	low       below it nothing is left to publish, as a message of a release stream said
//	rebuild   the progress is made from the bus, because the store had none
//
// Facts come in by [Progress.Note]. Of a shard that does not run, [Progress.Flush] moves the
// position with them. While it runs, with the options of the database, whose clock then holds,
// [Progress.Advance] does so for each acknowledged batch, and [Progress.Fill] takes in the rest.
// What they return is committed with the offsets, and [Progress.Saved] follows; where the store has
// not taken it the progress is opened again. A nominated row (rule 26) is left out of Passed and of
// Filled: it becomes, or stays, a gap until a poll finds that the view has it.
//
// Besides 8 bytes for each message since the last Flush, Options.MaxBytes of saved parts of the
// ledger, as much of ids that are ahead, and about 110 bytes a part of either, which has 256 to
// 1024 ranges of ids when it is full, are in memory. All other parts are only in the store. So ids
// in random order cost time, not memory, and none is forgotten.
package stream
