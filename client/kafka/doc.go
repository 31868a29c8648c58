// Package kafka has client.Table and client.Events read from Kafka: as bridge itself reads it, by
// read_committed, so that a consumer sees nothing of a transaction that was aborted.
//
// A Table needs DESCRIBE and READ on the topics. Events need READ on the consumer group, too; its
// members share the partitions, and each commits offsets once a second and when it hands a
// partition over.
//
// The connection of a group to its coordinator does not log in again before its session ends, as
// with OAUTHBEARER or MSK: the broker closes it, the group rebalances, and messages of up to a
// second are handed out again.
package kafka
