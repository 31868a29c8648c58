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
// # Layout, version 1
//
// The file is a bbolt database (pages of the host's page size and byte order) with these buckets:
//
//	"bridge"                          marks the file
//	    "format"                      sealed text "bridge checkpoint 1"; the number is the version of the layout
//	"shards"
//	    <stream>                      name as in checkpoint.Key, UTF-8, one bucket a stream
//	        <shard>                   name as in checkpoint.Key, UTF-8, one bucket a shard
//	            "state"               sealed state, in the form of checkpoint.AppendState
//	            "ledger"              the parts of the gap ledger, a bucket
//	                <key>             8 bytes, big endian; sealed part, in the form of source.Ledger
//
// Every value is sealed. A sealed value is its payload and four bytes: the CRC-32C, little endian, over the value's path and the payload, where
// the path is written as for each of its names from the root on the length (uvarint) and the bytes. A value is thus
// whole, and where it belongs.
//
// What else belongs to a shard goes beside "state", into values or buckets in the shard's bucket, sealed too, and changes in
// the same transaction. A reader that meets names there that it does not know leaves them alone. A value anywhere
// else is damage; a layout that needs one has another version.
//
// # Platforms
//
// Unix only: flock, rename over an existing file, and fsync of directories.
package bolt
