// Package verify is the outside check: it reads a bus from its beginning, folds the events per
// entity, compares the result with the tables and tells what does not fit. It shares the encoder of
// events with the program that publishes and nothing else: no checkpoint, no view, and readers of
// the buses of its own, in the subpackages.
//
// # What it judges
//
// Every event by itself: its members are turned back into a row, and that row is encoded again.
// Bytes and meta.id must be the same ([Altered]). Where the members do not tell the row (a JSON
// column, a tombstone, a column that is gone), the event is judged when its row is compared, or it
// is counted as [Unproven].
//
// The events of an entity of a capability stream: each names the one before it ([OutOfOrder],
// [BrokenLink]); the last one must say what the row says ([Missing], [Stale], [Extra]). CREATED,
// MODIFIED and the id are not compared, and NULL is the same as a member that is not there: what
// changes them alone is not published.
//
// With a KEY, all tables of a stream hold one set of entities: events are folded over all of them,
// and the last one is compared with the row in whichever table has it. In a partition the last
// event is that with the highest offset, across partitions that with the highest stamp: rule 6 of
// decision 17. Without a KEY the same id in two tables is two entities.
//
// The events of a release stream: each row has one, which is the row's encoding; the ids of one key
// ascend, save where an event was published late.
//
// The stamps and counts in the header bridge-state, where messages have one: every number that the
// bus has acknowledged is there ([LostMessage]), which messages are there twice ([Copy], [Again]),
// and whether the newest was published under this configuration ([OtherKey]).
//
// Order is judged on first occurrences. A repeat is allowed, and what it says counts: a repeated
// run ends with its newest.
//
// # What it cannot judge
//
// What the bus no longer holds (a [Partition] that has expired or is thinned), what START left out,
// rows younger than the stability window, and rows that change faster than it looks. These are
// counted apart ([Report]). A bridge that runs while the check does is waited for: what does not
// fit is looked at again, on the bus and in the table, before it is reported.
//
// # Memory
//
// It holds digests: 110 to 150 bytes an entity of a capability stream, 48 to 92 bytes a row of a
// release stream and 20 to 40 a key of it, whatever the number and size of the messages, and 8
// bytes more for each of an entity's latest 16 events but the last. The numbers of messages take up
// to a bit each, of a memory that is bounded.
//
// # Another bus
//
// Implement [Bus] in a subpackage and open it in internal/app.
package verify
