// Package verify is the outside check: it reads a bus from its beginning, folds the events per
// entity and per row into small facts, reads the tables once, and tells what does not fit.
// docs/findings.md says what it finds and what it cannot judge. It shares the encoder of events
// with the program that publishes, and the readers of the bus ([Bus]): no checkpoint and no view.
//
// An event is judged by itself first: its members are turned back into values of columns, and
// digest, meta.id and bytes are made of these again. They must be the same. Where the members do
// not tell the values (a JSON column, a tombstone, a column that is gone), the row proves the
// event, or nothing does.
//
// Then it is folded. The last event of an entity, of whichever table, is compared with its row: in
// a partition that with the highest offset, across partitions that with the highest stamp (rule 6
// of decision 17). A row of a release stream is compared with its one event. Order is judged on
// first occurrences. A repeat is allowed, and what it says counts.
//
// A bridge that runs while the check does is waited for: what does not fit is looked at again, on
// the bus and in the table, before it is reported.
//
// It holds digests: 170 to 200 bytes an entity of a capability stream, 56 to 110 bytes a row of a
// release stream and 20 to 40 a key of it, whatever the number and size of the messages, and 16
// bytes more for each of an entity's latest 16 events but the last. The numbers of messages take up
// to a bit each, of a memory that is bounded.
package verify
