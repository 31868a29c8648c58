// Package logburst keeps a log short that many shards write at once: a bus that goes away stops ten
// thousand of them, and what is to be read is one fault.
//
// A [Handler] passes on what the first shards of a stream say with one message, and counts the
// further shards that say the same within a time. At the end of that time one line tells how many
// they were, with the attributes of the last one. Lines that name no shard, and what one shard says
// again, pass as they are.
package logburst
