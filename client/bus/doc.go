// Package bus says what a message of bridge looks like on a bus, and how messages are read back.
// bridge and its consumers share it: docs/events.md describes the same for everybody.
//
// # Terms
//
// A destination is a Kafka topic or a NATS subject. A TP is a unit in which the bus keeps messages
// in order: a partition of a Kafka topic, or a JetStream stream. A sequence in a JetStream stream
// counts as an offset.
package bus
