// Package jetstream keeps the entry of a standby.Lease in a bucket of the key-value store of
// JetStream.
package jetstream
