// Package sink publishes messages to a bus.
//
// # Terms
//
// A message is an event with its destination, key and headers. A destination is a Kafka topic or a
// NATS subject. A TP is where the bus keeps messages in one order: a topic's partition, a
// JetStream stream.
//
// # Guarantees
//
// What [Sink.Publish] reports as acknowledged is durable by the bus's own word. Messages with the
// same key and destination reach the bus in the order in which they were given; a retry repeats
// messages, it never lets a later one overtake an earlier one. Transient faults, a missing topic,
// stream or permission among them, are retried inside the sink, for ever and with back-off.
//
// # Destinations
//
// A [Template] makes the destination of each event. [ParseTopic] and [ParseSubject] read one and
// refuse what can be no topic or subject of the bus. A message that the bus refuses for good may
// become a [DeadLetter].
//
// # Adding a sink
//
// Write a subpackage named after the technology with an Open function that returns a type which
// implements [Sink], run the suite in sink/sinktest against it, and add its URL scheme to the
// switches in internal/config and internal/app.
package sink
