// Package reconcile compares a table with what was published of it and nominates what differs.
//
// A [Reconciler] serves one shard. It reads the table page by page in the order of the ids, side by
// side with the shard's view in the same order, in constant memory. It notes three kinds of
// differences: a row without an entry in the view, a row with another digest than its entry or with
// a disputed one, and an entry without a row. It never publishes. It nominates the row or the
// entity, and the [Owner] of the shard reads it again and publishes what is true then. An entity
// with a row in another table of the stream has moved, and is not gone.
//
// Rows are nominated while the next page is read. An entity without a row is looked up by key,
// because its row may have another id now. If it has none, it waits in the checkpoint until the
// scan has ended. Then the [Guard] decides: if suspiciously many entities are gone, none is
// nominated, so no delete is published (invariant 5). The guard stays tripped until a run passes
// or a person allows the deletes.
//
// A run that is cut short resumes at its last save, and begins again on another server. A release
// stream has no view: a run compares the ids of the table with those that were not published.
//
// A [Scheduler] runs the reconcilers of a process, a few at a time, and takes requests.
package reconcile
