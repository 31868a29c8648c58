// Package sink publishes messages to a bus.
//
// # Terms
//
// A message is an event with its destination, key and headers. A destination is a Kafka topic or a
// NATS subject. A TP is a unit in which the bus keeps messages in order: a partition of a Kafka
// topic, or a JetStream stream. A sequence in a JetStream stream counts as an offset.
//
// # Guarantees
//
// A message that [Sink.Publish] reports as acknowledged is durable, by the bus's own word. Messages
// with the same key and destination reach the bus in the order of the batch. A retry may repeat
// messages; it never lets a later one overtake an earlier one. The sink retries transient faults
// for ever and with backoff, also a missing topic, stream or permission.
//
// # Formats
//
// A sink does not look into a value. [Message].Format and Bare decide headers alone: the content
// type, and what a value that is the row alone, or one column, does not say.
//
// # Destinations
//
// A [Template] makes the destination of each event. [ParseTopic] and [ParseSubject] parse a
// template and refuse one that cannot make a legal topic or subject. A message that the bus refuses
// for good may become a [DeadLetter].
//
// # Adding a sink
//
// Write a subpackage named after the technology with an Open function that returns a type which
// implements [Sink], run the suite in sink/sinktest against it, and write a driver
// (internal/driver) for its URL and settings.
package sink
