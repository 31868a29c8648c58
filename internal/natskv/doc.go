// Package natskv makes buckets of the key-value store of NATS JetStream, as its clients do: for
// standby groups, and for progress on the bus.
package natskv
