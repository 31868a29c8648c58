// Package nats has the drivers of nats:, for servers of NATS with JetStream, and of embedded:, for
// such a server inside the process.
package nats
