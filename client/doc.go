// Package client consumes what bridge publishes to Kafka or NATS JetStream. It knows the rules of
// docs/events.md that a consumer would otherwise get wrong.
//
//   - [Table] keeps a copy of a capability stream in memory.
//   - [Events] hands the events of a stream to a function, at least once.
//
// Both run on a [Bus]: see the packages kafka and jetstream below this one. Run of each blocks, has
// all goroutines and connections, and retries for ever what may heal.
//
// # Table
//
// A Table reads the topics or streams from their beginning at every start and keeps no offsets, so
// it holds what the bus holds. It equals the table of the database where the bus keeps the last
// event of each entity: a compacted topic, or one where nothing expires. Until [Table.Ready] it
// lacks entities; Ready goes by the leader's end offsets at the start.
//
// Order. Within a topic-partition the higher offset holds, across topic-partitions the higher
// (epoch, seq) of the header bridge-state. Messages that are not newer are not applied. So
// entities may move between topics and subjects, partitions may be added, and a former process of
// bridge may send late: bridge follows the same rule and corrects what it finds on the bus.
//
// Repeats. An event with the meta.id that the copy has is not a change, and no watcher hears of it.
//
// Deletions. An entity is gone with its Deleted event or with a null value (a tombstone), which
// may lack headers and then counts for its own partition alone. Where the stream has more than one
// topic-partition, a deletion is remembered for an hour after it was read, so that an older
// message in another one does not bring the entity back. At least 100,000 are remembered, and no
// more than there are entities, or 200,000; [Stats.Forgotten] counts those that went early. An
// older message that comes even later brings its entity back until bridge publishes it again.
//
// Another KEY. A message under another KEY, kind or scope, that is newer than all others, drops
// the entities of before: their keys mean something else.
//
// Several tables without KEY have entities of their own under the same ids, which messages do not
// tell: set Options.ByTable, or these entities count as one.
//
// Messages of other streams or domains are passed over and counted. So are messages of the stream
// without bridge-state, from an older bridge. A message that cannot be understood, as of a
// newer bridge, ends Run with an error.
//
// A bus that is made again, purged (on JetStream, where nothing expires or is replaced), or set
// back to an older time is noticed, at the latest after Options.RefreshEvery. The Table reads it
// from the beginning and serves its former copy meanwhile. Entities that the bus does not have then
// are kept for Options.KeepFor, in which bridge publishes them again, and are dropped. The same
// follows where retention has removed messages before they were read (a limit per subject does no
// harm where each entity has a subject), and behind an outage of more than an hour, in which
// compaction may have removed what deletes entities. One thing is not noticed: a bus that was set
// back to an older time and has grown past where the Table was before the Table reads on. Restart
// the program behind such a restore.
//
// Memory. An entity takes its key and body, and about 200 bytes: see docs/performance.md. A
// rebuild holds two copies for a while. Beside that reading takes up to 8 MiB a topic-partition,
// and about 128 MiB for all of Kafka, or 64 KiB and a batch of each.
//
// # Events
//
// The bus keeps progress: Kafka by a consumer group, JetStream by a durable consumer. A Handler is
// given the events of a topic-partition in their order, one after the other. An event that it
// refuses is tried again, with backoff, for ever, and later ones of its topic-partition wait. What
// is handled when a process is killed, and not committed yet, comes again: at most a second's
// worth on Kafka, one event on JetStream; more where the bus itself is killed and loses
// acknowledgements that it has not written.
//
// Event.Repeat says that this process has handled the same meta.id: it remembers the last 16,384 of
// the topic-partition, and up to as many more. A handler of facts may skip such an event. A handler
// of states should not: a late message may be what the bus says last. Tombstones are passed over;
// where compaction has removed the Deleted event before it was handed out, a Table alone tells that
// the entity is deleted. To do something exactly once, remember ids in the transaction that does
// it.
//
// Several processes of a group share the partitions on Kafka. On JetStream one message is handed
// out at a time, to whichever process asks, as order is not kept otherwise. A subject that a group
// reads later than others begins there where the group is: its older events are not handed out.
package client
