// Package ledger decides which rows the tail of a shard may publish, and keeps track of the ids
// that it skipped. It does no I/O and has no clock: times and rows come in as arguments.
//
// # The problem
//
// A tail reads "id > position ORDER BY id". Ids are allocated when a row is inserted and become
// visible when its transaction commits, so a lower id may become visible after a higher one. A
// transaction that allocates id 7, works for 5 s and commits after id 8 was published is never seen
// by "id > 8". [Window] makes that rare: it holds a row back until it has been stable for a while.
// [Ledger] makes it harmless: it keeps every id at or below the position that is not published, and
// says which of them to look up at each poll.
//
// # Terms
//
//	handed over given to be published: the bus may not have it yet
//	position    the read position: the highest id that was handed over or skipped; it is saved as
//	            the position of the shard once the bus has acknowledged that
//	missing     at or below the position and not handed over, with [GapHold] also above it, in the
//	            page of the last Notice; a row that is passed over because it is too young comes
//	            out later as a late row
//	gap         a range of missing ids that were first missed at one moment
//	late row    a row that appears in a gap
//	evidence    a read of ids that shows uncommitted rows, too; where the server shows none, of
//	            committed ones: then time decides which transactions may still be open
//	pending     missing, and in the last evidence: its transaction is open
//	vacant      missing, and not in the last evidence: rolled back, deleted, or not inserted yet
//	hot         looked up at every poll, in turns where they are too many: pending ids, those that
//	            no evidence has covered yet, and vacant ones until [Options.HotFor] after they
//	            were first missed or last pending, with source.OrderSegmented until GapTTL; with
//	            [GapHold] all above the position
//	cold        looked up in a sweep every [Options.SweepEvery], until [Options.GapTTL]
//	unpolled    first missed more than GapTTL ago, and shown vacant by an evidence after that: no
//	            longer looked up, and still missing
//	wide gap    what a stray high id leaves behind: its front, which is the lowest million ids, is
//	            read at every poll for ever, without evidence once it is not hot. Up to eight are
//	            kept; a further one takes the room of the narrowest if it is at least twice as wide
//	block       a part of the gaps in the compact form in which it is saved
//
// # Polling
//
// One poll with [GapLate]. Each read begins after the one before has ended:
//
//	page := read committed rows after Position()
//	See(page.MaxID, now)                              // the Window's, and the Ledger's
//	probe := Hot(now)                                 // empty: no reads
//	rows := read committed rows in probe.Rows         // a Missing and stable one is a late row
//	found := read ids in probe.IDs, READ UNCOMMITTED  // or READ COMMITTED without evidence
//	Observe(Evidence{probe.IDs, found, now})
//	encode the stable rows of the page and the late rows behind them; then, for what was encoded:
//	Fill(late ids), Advance(highest id, ids, now)
//	hand over the batch with Changed(), to be saved once the batch is acknowledged
//
// With [GapHold] the ids of the page become missing before the evidence is read, and Reach says
// afterwards how much of the page may be published:
//
//	Notice(ids of the page, now) … Hot, reads, Observe … Reach(highest stable id), Advance
//
// When Sweep returns ranges, one more read of ids goes to Swept.
//
// # Guarantees
//
// No id is forgotten. An id that Advance makes missing was not committed in the snapshot of a page,
// was too young, or is published in another way. It stays missing until Fill removes it. Polling it
// ends only after an evidence that was read later than that page shows it vacant. So polling does
// not end while a row with it exists that the evidence can show. A row that commits between the
// committed read and the evidence is in the evidence, counts as pending, and is found by the
// committed read of the next poll.
//
// Outside of the fronts of wide gaps, the rows that wait for a reconcile are those inserted more
// than GapTTL after their ids were missed; where evidence shows committed rows alone, also those
// that commit later than that. EndPolling ends polling without evidence: a reconcile must follow.
//
// A crash loses nothing. Changed describes the ledger without the late ids of the batch and with
// the gaps that the batch skips. It must be saved with the position, whole, once the batch is
// acknowledged. Then it always matches what is on the bus. A ledger that is restored from an older
// state has more missing ids, and repeats no more than the batches that were not saved.
//
// Memory is bounded. A billion missing ids in a row are one gap. Scattered gaps take one to two
// bytes each, and with [Options.Load] only [Options.MaxBytes] of them stay in memory.
package ledger
