// Package source reads shards: physical SQL tables whose rows have an increasing id.
//
// # Terms
//
// A stream is one logical table, a shard one physical table of it, a row one row as read. Package
// ledger has the terms of a shard's progress: position, gap, late row.
//
// # Guarantees
//
// A [Shard] reads with SELECT and nothing else. A page comes from one statement, unless it is asked
// for by many keys ([Query.Keys]), together with the database's clock, the server's identity and
// the highest id of the table in the same snapshot, so that no decision mixes two moments. [Query]
// reads rows in the order of their ids, by ids, or by keys; [IDReader] reads ids alone, also those
// of uncommitted rows; [ChangeReader] reads which rows changed.
//
// [ExpandTables] says which tables a stream has, without I/O. Package ledger decides which rows may
// be published and which ids to look up.
//
// # Adding a source
//
// Write a subpackage named after the technology, with an Open function that returns a type which
// implements [Source]. Deliver values in the normal form of their [Kind], pass the suite in
// source/sourcetest, and write a driver (internal/driver) for its URL.
package source
