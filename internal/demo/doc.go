// Package demo is what surrounds the pipeline in `bridge demo`: an application that writes to an SQLite database, a subscriber that
// shows events as they come, and a judge that compares the bus with what was written.
//
// # The application
//
// [Writers] fill three tables as the systems do that bridge was made for: revisions of applications with heartbeats, where a
// change is a REPLACE that gives the row a new id and a delete is a REPLACE that sets a mark; capabilities of test environments,
// whose ids come from blocks of 5,000 that several containers hold, so that low ids are written long after higher ones;
// and a log of releases, which is purged. The [Record] says when each row was committed and since when it is gone.
//
// internal/workload has writers for tests, whose tables are all alike; these ones are made to be looked at.
//
// # The judge
//
// [Judge] reads the stream from its beginning with nats.go alone. A row is lost when it has no event although it is still in its
// table, or was there for longer than [SeenWithin]. One that was replaced or purged sooner may never have been read: bridge
// publishes states, not statements.
package demo
