// Package pebble keeps a store in a folder, with the storage engine Pebble.
//
// # Why a kill leaves a prefix
//
// Pebble's log is off: the bus is the log. A batch lies in one memtable, or is a memtable of its
// own when it is larger. Memtables are flushed in their order, and one record in Pebble's manifest,
// synced behind the tables that it names, makes the flush of one or several of them visible. So
// what is there after a kill is a prefix of the batches, each of them whole. Range deletes lie in
// the memtable, too. An entry and the locations of its hash change in one batch.
//
// # The folder
//
//	FORMAT   "bridge store 3" and a line feed; written last when a store is made
//	LOCK     locked while a process uses the store
//	DAMAGED  why the next Open sets the store aside; only where damage was seen
//	db       Pebble's files
//	aside    the db that was set aside last
//
// Pebble checks a checksum of each block that it reads. Values have none of their own, and no
// version: that of FORMAT holds for all.
//
// # Values
//
// The first byte of a key is its kind. Numbers in keys are big-endian and of fixed size. In values,
// u is an unsigned varint, i a signed one, text its length (u) and bytes; times are microseconds
// since 1970 (i).
//
//	'e'                              the epoch u
//	'n' kind, number (4)             the name that a number stands for: text, and for a shard text
//	'r' number (4)                   registration
//	's' shard (4)                    progress
//	'p' shard (4), kind, number (8)  part, as it is
//	'h' stream (4), hash (8)         locations of the entities with that hash
//	'v' shard (4), row (8), entity   entry that is not absent
//	'a' stream (4), time (8), entity entry of an absent entity; the time in seconds since the year 1
//
// A location says which key an entry has: shard plus 1 (u) and row u or, of an absent entity, 0 (u)
// and the time u. A hash has one for each of its entities, mostly one. The key of an entry proves
// which entity it is of, so entities with one hash are told apart.
//
// An entry is: state 1 byte, plus 128 when it is disputed, the digest, 16 bytes, or of an absent
// entity shard u and row u, event 16 bytes, registration u, offset plus 1 (u), epoch u, seq u.
//
// # Platforms
//
// Unix only: flock, and fsync of directories.
package pebble
