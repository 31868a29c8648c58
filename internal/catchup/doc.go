// Package catchup has the rules by which bridge compares the bus with the store (decision 17), as
// pure code: no I/O, no goroutines, no clock.
//
//   - [Apply] is rule 6: which message of an entity its entry in a view follows.
//   - [Coverage] is rules 4, 5 and 20: which offsets of a topic-partition the store may call
//     covered, what is left to read of it, and by which messages it is known again.
//   - [InFlight] is the part of rule 4 that stops a reader: what this process has sent and the bus
//     has not acknowledged.
//
// A TP is a topic-partition of Kafka or a stream of JetStream, and is named by the number of its
// registration, from 1: a TP that was made again, or lost its tail, gets another number (rules 10
// and 21). internal/model runs the same rules in random lives, by the same Apply.
package catchup
