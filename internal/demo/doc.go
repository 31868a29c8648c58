// Package demo is what surrounds the pipeline in `bridge demo`: an application that writes to an SQLite database, a subscriber that
// shows events as they come, and a judge that compares the bus with what was written.
//
// # The application
//
// [Writers] fill three tables as the systems do that bridge was made for: revisions of applications with heartbeats, where a
// change is a REPLACE that gives the row a new id or an UPDATE in place, and a delete is an UPDATE that sets a mark, with a column
// that tells when; capabilities of test environments without such a column, whose ids come from blocks of 5,000 that several
// containers hold, so that low ids are written long after higher ones, and whose rows are deleted for good or marked; and a log of
// releases, which is purged. The [Record] says which states each entity had, and when.
//
// internal/workload has writers for tests, whose tables are all alike; these ones are made to be looked at.
//
// # The judge
//
// [Judge] reads the stream from its beginning with nats.go alone. A state is lost when it has no event although its entity has it
// still, or had it for longer than [SeenWithin]. One that was over sooner may never have been read: bridge publishes states, not
// statements. The last event of each entity must be its last state.
package demo
