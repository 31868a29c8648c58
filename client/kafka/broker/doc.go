// Package broker sends requests to the brokers of a Kafka cluster and reads topics back. It is what
// client/kafka and the sink of bridge have in common, and may change with them: other programs use
// client/kafka.
//
// A [Cluster] keeps connections, with TLS and login, and knows the leaders. A [Reader] is a
// [bus.Reader] of committed messages: answers that hold batches are decoded by a [Decoder], and
// what is wrong between two of them is judged by what brokers have said ([RemedyFor]).
package broker
