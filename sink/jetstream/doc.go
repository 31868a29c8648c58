// Package jetstream publishes to NATS JetStream: pipelined, in order, over any number of reconnects.
package jetstream
