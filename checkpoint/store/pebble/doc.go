// Package pebble keeps a store in a folder, with the storage engine Pebble.
//
// # Why a kill leaves a prefix
//
// Pebble's log is off: the bus is the log. A batch lies in one memtable, or is a memtable of its
// own when it is larger. Memtables are flushed in their order, and one record in Pebble's manifest,
// synced behind the tables that it names, makes the flush of one or several of them visible. So
// what is there after a kill is a prefix of the batches, each of them whole. Range deletes lie in
// the memtable, too.
//
// # The folder
//
//	FORMAT   "bridge store 1" and a line feed; written last when a store is made
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
//	'f'                              epoch u, has producer 1 byte, producer id i, producer epoch i
//	'n' kind, number (4)             the name that a number stands for: text, and for a shard text
//	's' shard (4)                    progress
//	'p' shard (4), kind, number (8)  part, as it is
//	't' tp (4)                       covered i, anchor: offset u, epoch u, seq u
//	'v' stream (4), entity           entry
//
// An entry is: fate 1 byte, shard u, row u, event 16 bytes, then the digest, 16 bytes, or for an
// absent entity the seconds since 1970 (i), then the topic-partition, its number plus 1 (u; 0:
// none), offset u, epoch u, seq u.
//
// # Platforms
//
// Unix only: flock, and fsync of directories.
package pebble
