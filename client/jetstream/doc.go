// Package jetstream has client.Table and client.Events read from NATS JetStream.
//
// A Table reads streams by consumers of its own that leave nothing behind. It needs
// $JS.API.STREAM.NAMES, $JS.API.STREAM.INFO, $JS.API.STREAM.MSG.GET and $JS.API.CONSUMER.
//
// Events use one durable consumer for each stream, which all processes of a group share. It hands
// out one message at a time to all of them together (MaxAckPending is 1): only so JetStream keeps
// the order of an entity when a message comes again. So each event costs a round trip (some
// thousand a second), and further processes stand by. Split the subjects between groups to handle
// them side by side. They need $JS.API.STREAM.NAMES, $JS.API.CONSUMER and $JS.ACK.
package jetstream
