// Package bus reads topics and streams for the outside check and for dead letters, by a
// [sink.Reader] that is opened for that alone: from the first message that is left to the leader's
// end, committed messages only.
//
// A partition of Kafka whose log start is not 0 counts as expired, one with holes between its
// offsets as thinned (compacted), where no transaction has left them. A stream of JetStream whose
// first sequence is not 1 counts as expired where it has a limit by age, number or size; without
// one, nothing goes by itself. It counts as thinned where messages are missing and may have gone
// one by one: a limit per subject, a time to live.
package bus
