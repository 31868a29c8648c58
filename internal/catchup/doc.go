// Package catchup compares the bus with the store and reads what the store lacks (decision 17).
//
// A TP is a topic-partition of Kafka or a stream of JetStream, and is named by the number of its
// registration, from 1: one that was made again, or lost its tail, gets another number (rules 10
// and 21). A registration is of one stream: two streams on a TP have two, which one reading serves.
//
// # Pure rules
//
//   - [Apply] is rule 6: which message of an entity its entry in a view follows.
//   - [Span] is rules 4, 5 and 20: which offsets of a topic-partition the store may call covered,
//     what is left to read of it, and by which messages it is known again.
//   - [Epoch] is rule 1, [MeaningHash] rule 12.
//
// # What writes the store
//
// [Committer] applies all batches while bridge runs. Each has the offsets that it covers, so no
// offset is ahead of what the store has. A publisher calls Sending, publishes, and calls
// Acknowledged or Unknown; behind an unknown outcome it calls CatchUp.Resolve.
//
// Two others write, too: reconcile has the store forget entities that are absent for long, and the
// commands on the checkpoint apply batches while bridge is stopped.
//
// # What reads the bus
//
// [CatchUp] does, into a [Feed] for each stream. Start reads all TPs to their ends and has the
// epoch synced; Run reads holes, looks up ends and compares anchors in the background.
//
// The entities of late messages (rule 7) are named in the store with the offset that passes them,
// until their owners have decided: the feed nominates them once the stream is ready.
package catchup
