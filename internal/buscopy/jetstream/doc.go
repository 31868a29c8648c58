// Package jetstream is a bucket in a KV bucket of JetStream.
package jetstream
