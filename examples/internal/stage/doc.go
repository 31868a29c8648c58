// Package stage is what the examples share: a database, a bus, and bridge beside them as a process
// of its own, as a sidecar would run.
//
// # What it starts
//
// [Main] makes the tables of an example, and removes what it has made at the end. Without further
// ado all of it lies in a temporary folder: the database is a file of SQLite, the bus is the NATS
// server inside bridge. These variables lead an example to real servers:
//
//	EXAMPLE_SOURCE_URL  the database, as BRIDGE_SOURCE_URL: mysql://user:password@host:port/database.
//	                    The user may create tables there, and none of the example's may exist.
//	EXAMPLE_SINK_URL    the bus, as BRIDGE_SINK_URL: kafka://host:port,… or nats://host:port,…
//	EXAMPLE_BRIDGE      the program. Defaults to bin/bridge, which make build makes.
//
// # What an example brings
//
// Three files: table.sql and table.sqlite.sql with its tables, and bridge.env with the
// configuration of bridge. Main changes of it no more than where things are, and the domain, so
// that two runs on one bus do not meet.
package stage
