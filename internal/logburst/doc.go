// Package logburst keeps a log short that many shards write at once: a bus that goes away stops ten
// thousand of them, and what is to be read is one fault.
//
// A [Handler] passes on what the first shards of a stream say with one message, and counts the
// further shards that say the same within a time. At the end of that time one line tells how many
// they were, names some, and has the attributes of the last one. Lines that name no shard, those
// that name a row, and what a shard with lines of its own says again, pass as they are.
package logburst
