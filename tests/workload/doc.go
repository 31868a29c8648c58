// Package workload writes to a database as the applications do whose tables bridge tails: many
// writers at once, transactions of random length, rollbacks, failing inserts, REPLACE and DELETE.
//
// A [Workload] inserts rows, each with a token that no other one has, and keeps a record of what
// became of them. A [Capabilities] changes the states of entities and keeps a [History] of each. A
// test judges by them what reached the bus. An entity belongs to one writer, so the order of its
// versions is known, whatever ids its rows have.
//
// Writers go on over a restart of the database and over a table that is away. After a COMMIT
// without an answer they ask the table what became of it. What is there was committed, only when is
// not known exactly. What is not there a server may have shown for a moment all the same.
package workload
