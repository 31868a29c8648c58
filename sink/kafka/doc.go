// Package kafka publishes messages to Apache Kafka and what speaks its protocol, by the wire
// protocol of segmentio/kafka-go and a thin idempotent producer of its own.
//
// # Terms
//
// A worker is the way to one partition of one topic. A portion is the part of one Publish that goes
// to one worker. A wire batch is the unit that a broker takes or refuses as a whole; it may hold
// portions of several Publish calls.
//
// # The way of a message
//
// Publish looks up the partitions of its messages (topics.go), gives each worker its portion
// (call.go) and waits until all of them have ended. A worker has a goroutine while it has portions
// (worker.go, drain): it fills a wire batch (batch.go), has it sent and tried again
// (deliver, produce.go), and notes in the call where each message lies, or why it was refused.
//
// Requests that kafka-go lacks are those of franz-go's kmsg, over kafka-go's connections
// (Requester).
//
// # Guarantees
//
// Every wire batch is acknowledged by all in-sync replicas (acks=all). A worker has one in flight,
// so that a retry is never overtaken; workers go side by side. Retries carry the producer id, epoch
// and sequence of the first attempt, by which a broker drops what it has already. Where the broker
// and the worker disagree about the sequence, and after a cancelled Publish whose batch was in
// flight, the worker takes the next epoch: messages may then be repeated, but late copies of
// earlier attempts are refused (see identity in produce.go).
//
// A message goes to the partition that Java's default partitioner picks for its key (murmur2).
// Messages without a key, and with an empty one, all go to one and the same partition: a spread of
// them would have no order. When partitions are added to a topic, keys move to other partitions,
// and Kafka orders nothing across partitions: what was published before and after the change may be
// consumed in any order. The sink notices within five minutes and logs it.
//
// A record's timestamp is when its message was made, not the time of the row: a broker deletes by
// it, and a table's history would be gone on arrival.
//
// Topics are never created. A missing topic, a missing grant, a refused login and a broker that is
// away are waited for. What a topic refuses because of its size (max.message.bytes), and records
// without a key in a compacted topic, are rejected. What follows a rejected message on its
// partition is not sent in that call.
//
// A topic that is deleted and created again takes what is published like any other. Outcomes tell
// its id once the sink has noticed: it asks after a fault, and within seconds when a batch does not
// lie behind the one before it.
//
// # Exactly once
//
// With a transactional id, what is ready goes in one transaction after the other, made by one
// goroutine for the whole sink (transactions.go, transaction.go): a reader of committed messages
// sees each once. An outcome in doubt is decided by a new InitProducerID (decision 20).
//
// # Reading
//
// Beside WRITE and DESCRIBE the user needs READ on the topics to read them back. Committed messages
// are read, in every mode: record batches are decoded here, because kafka-go hides control batches,
// which count for the end of a read, and does not leave out aborted transactions.
package kafka
