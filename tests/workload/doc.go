// Package workload writes to a database as the applications do whose tables bridge tails, for
// tests, benchmarks and the demo: many writers at once, transactions of random length, rollbacks,
// failing inserts, several rows in a statement, REPLACE and DELETE. Ids come from the database's
// counter, from several interleaving nodes, from blocks that containers hold, or from counters that
// are moved by compare-and-set.
//
// # The record
//
// A [Workload] keeps a [Record] of every row that it has inserted: what became of its transaction,
// the host's time before and after the COMMIT, and whether the row has been replaced or deleted
// since. A test judges by it what reached the bus. Each insertion carries a token that no other one
// has, in a column of the table, by which an event is matched with its entry; so the record does
// not depend on the ids that a server has handed out, or hands out again after a crash.
//
// An entity belongs to one writer. Its insertions are therefore committed in the order of their
// versions, whatever ids they have.
//
// # Faults
//
// Writers go on over a restart of the database and over a table that is away for a time. A
// transaction that loses its connection before the COMMIT is rolled back. One that loses it in the
// COMMIT is looked for, with a locking read, once the database answers: if its rows are there it
// was committed, only when is not known exactly (Row.Ambiguous); if they are not it stays
// [Unknown], because a server may show a row for a moment that it has not yet made durable.
//
// # States
//
// [Capabilities] writes states of entities: updates in place with and without a trace, flapping,
// REPLACE whose newer state has the lower id, soft and hard deletes, keys that change. It keeps a
// [History] of every entity, by which a test judges whether a sequence of published states can have
// been read in that order, and whether an entity that was reported as deleted existed all the
// while.
//
// # Adding a source of ids
//
// Add a type with its options that implements [IDs], and an issuer that draws.
package workload
