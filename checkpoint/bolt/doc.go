// Package bolt keeps checkpoints in one bbolt file.
//
// # Guarantees
//
// A save is on the disk when [Store.Save] returns nil: the file's pages first, then the header page that makes them count,
// each followed by fdatasync. Saves that come while another one is being written share the next write. After a kill, the
// file holds for each shard the last state whose save returned, or the one that was being saved.
//
// [Open] reads the whole file before it trusts it: both header pages, every page of every tree, the list of free pages and the
// checksum of every value. bbolt itself checks its header pages only, and follows whatever the others say. A file that
// is damaged, cut off, foreign, or of a newer version is refused and left as it is. One process at a time can have it
// open (flock).
//
// A new file is made aside and put in its place by a rename, so that a kill leaves either a whole file or one of 0 bytes, which
// the next Open fills. A file of 0 bytes is the only one that Open ever replaces.
//
// # Layout, version 3
//
// The file is a bbolt database (pages of the host's page size and byte order) with these buckets; numbers in names are 8 bytes,
// big endian:
//
//	"bridge"                          marks the file
//	    "format"                      sealed text "bridge checkpoint 3"; the number is the version of the layout
//	"shards"
//	    <stream>                      name as in checkpoint.Key, UTF-8, one bucket a stream
//	        <shard>                   name as in checkpoint.Key, UTF-8, one bucket a shard
//	            "state"               sealed state, in the form of checkpoint.AppendState
//	            "run"                 sealed reconcile run, in the form of checkpoint.AppendRun, if there was one
//	            "meaning"             sealed configuration that the state was made with, in the form of checkpoint.AppendMeaning;
//	                                  none in a shard that an older version saved last
//	            "published"           the parts of the list of rows that were published last, a bucket
//	                <key>             number; sealed part, in the form of published.Log
//	            "ledger"              the parts of the gap ledger, a bucket
//	                <key>             number; sealed part, in the form of ledger.Ledger
//	            "journals"            what is about to be published, a bucket
//	                <number>          ascending; sealed journal, in the form of checkpoint.AppendJournal
//	            "given"               the ids that an earlier version gave up, a bucket
//	                <first id>        number; sealed last id, a number; ranges are disjoint with ids between them
//	            "absent"              the entities that wait for the end of the run, a bucket
//	                <number>          counted from 0; sealed entity
//	            "recent"              the newest changes of the view, a bucket
//	                <number>          ascending; sealed changes, of each entity one, in the order of their rows: each in the
//	                                  form of checkpoint.AppendChange, and the CRC-32C over it, little endian
//	            "view"                the view in the order of entities without what is recent, a bucket
//	                <entity>          sealed block: of each entity its known, in the form of checkpoint.AppendKnown
//	            "rows"                those of "view" that have a row, in the order of rows, a bucket
//	                <row><entity>     number and entity; sealed block: of each such name fate (1 byte) and state (16 bytes)
//
// Every value is sealed. A sealed value is its payload and four bytes: the CRC-32C, little endian, over the value's path and the payload, where
// the path is written as for each of its names from the root on the length (uvarint) and the bytes. A value is thus
// whole, and where it belongs.
//
// What else belongs to a shard goes beside "state", into values or buckets in the shard's bucket, sealed too, and changes in
// the same transaction. A reader that meets names there that it does not know leaves them alone. A value anywhere
// else is damage; a layout that needs one has another version.
//
// A block has neighbours in the order of its bucket: the byte 0x80, then for each of them, in that order, the length (uvarint) and the bytes of its
// name, and of what is known of it. A block is named by its last one or by a later name, which is below those in the block behind it.
//
// Version 1 had at most one journal, in a value "journal" beside "state"; the next save of a shard removes it. Version 2 had no blocks: in
// "view" and "rows" it had a value for each name, which folds bring into blocks where they come by. Open makes of such files ones
// of version 3 by their "format" alone.
//
// # Views
//
// The keys of entities are in no order, so that each change of a view would rewrite a page of its own in "view", and in "rows"
// another one. A save therefore only adds one value to "recent", and to the overlay in memory, which finds for each entity the newest change
// there. When there are enough of them, they are folded into the trees "view" and "rows", each in its order, so that a page is
// rewritten once for many changes.
//
// What a fold has to do is found out beside the saves, in short transactions that read. Then it takes several transactions, made by
// those who save, between saves. Until the last one, which removes what was recent, the overlay hides what
// the fold has done to the trees. After a kill the fold is begun again, with what "recent" holds then; it first changes "rows", while "view"
// still says which row an entity leaves. Readers see the trees and the overlay as they were between two saves: all of a save, or none of it.
//
// # Platforms
//
// Unix only: flock, rename over an existing file, and fsync of directories.
package bolt
