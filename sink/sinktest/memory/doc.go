// Package memory is a bus in memory: the twin of the real sinks for tests of what stands before a
// sink.
//
// It passes the suite in sink/sinktest. Where buses differ, every destination is one TP and a
// repeat is kept, unless [Options] has it behave as Kafka ([Options.Partitions]) or as JetStream
// ([Options.Stream], [Options.Duplicates]). Hooks make it slow, forgetful or choosy: [Sink.Pause],
// [Sink.Reject], [Sink.Lose] and [Sink.Wipe].
package memory
