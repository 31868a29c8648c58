// Package source reads shards: physical SQL tables whose rows carry an increasing id.
//
// # Terms
//
// A stream is one logical table, a shard one physical table of it, a record one row as read. A position says how far a
// shard has been published: the highest id, plus the gaps below it that have not been seen.
//
// # Guarantees
//
// A [Shard] reads with SELECT and nothing else. Every page comes from one statement, and with it the database's clock, the
// server's identity and the highest id of the table in the same snapshot, so that a decision never mixes two moments.
// Rows are read in the order of their ids, by their ids, or by their keys ([Query]); ids alone, of uncommitted rows too, by [IDReader]; and
// where rows changed by [ChangeReader].
//
// What decides when a record may be published ([Window]), which ids were not seen and are looked for ([Ledger]), and which tables
// a stream has ([ExpandTables]) is pure: no I/O, no clock of its own.
//
// # Adding a source
//
// Write a subpackage named after the technology with an Open function that returns a type which implements [Source],
// deliver values in the normal form that [Kind] describes, run the suite in source/sourcetest against it, and add its
// URL scheme to the switch in cmd/bridge.
package source
