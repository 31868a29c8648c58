// Package buscopy keeps a copy of the progress of each stream on the bus, for a process whose
// checkpoint may be lost (decision 23).
//
// A [Copy] is an older copy of the part of the store that is no view. It is always safe to go on
// from one: what was published since is read from the bus. So copies are written now and then,
// beside what is published. Only what no message tells waits for one: the decision about START of a
// table.
//
// A [Keeper] writes the copies of the streams of a process, and loads them. A [Bucket] holds them:
// a compacted topic of Kafka ([NewTopic]), or a KV bucket of JetStream ([NewKV]).
//
// To add a bus: implement [Bucket], or give [NewMessages] a sink, and run the suite of buckettest.
package buscopy
