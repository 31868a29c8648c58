// Package reconcile compares a table with what was published of it and nominates what differs.
//
// A Reconciler serves one shard. It reads the table in the order of its ids, page by page, side by
// side with the shard's view in the same order, in constant memory, and notes what differs: a row
// that the view does not know, a row whose state is another one, an entry of the view without a
// row. It never publishes: whatever it notices the Owner of the shard reads again, compares and
// publishes.
//
// Rows are nominated while the next page is read. Entities without a row are looked for by key, so
// that a row that has another id now does not count as gone, and wait in the checkpoint until the
// scan has ended: only when the guard finds that not suspiciously many are gone are they nominated
// (invariant 5). A guard that trips publishes no delete, and stays tripped until a run passes or a
// person allows the deletes.
//
// A run that is cut short goes on where its last save stood: everything up to there has been
// judged. Of a release stream, which keeps no view, a run looks only for the IDs that were
// not published.
//
// A Scheduler runs the reconcilers of a process, a few at a time, and takes requests.
package reconcile
