// Package published keeps the rows of a shard that were published last, and tells from a second
// read of them whether the table uses their ids again. It does no I/O.
//
// # What a reused id is
//
// A database that fails over to a server that is behind, or that crashes without having flushed its
// log, forgets its newest rows and then hands out their ids again. Rows under such ids lie below
// the position, so the tail never sees them. AUTO_INCREMENT tells only as long as it is at or below
// the position; these rows tell afterwards.
//
// # What decides
//
// A server hands out ids above its highest row. So every id that is used again is above every row
// that survived: one row that is still the one that was published proves that nothing below it is
// used again. Rows are therefore compared from the newest down, and mostly one is enough. What an
// application does to its rows (updates, deletes, a purge) keeps no such order.
//
//   - A row is the same when its identity is: it may have been updated in place.
//   - Rows of the same content prove a survivor in an unbroken run of 16, or down to the end of the
//     list: its highest. Fewer may be equal by chance, and are doubtful.
//   - A row is another when its identity differs: CREATED where that is finer than a second, else
//     the KEY of a capability stream unless that is the id. Without an identity a content that
//     differs may come from an update or a new row, and the row is doubtful.
//   - A row that is gone says nothing: it was deleted, purged or lost.
//
// [Check.Outcome] says what follows; docs/decisions/013-ids-used-again.md says why.
package published
