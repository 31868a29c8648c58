// Package server keeps a connection to NATS servers and reads JetStream streams back. It is what
// client/jetstream and the sink of bridge have in common, and may change with them: other programs
// use client/jetstream.
//
// A [Connector] keeps one [Session] open: a connection that is never taken up again once it is
// lost. A [Reader] is a [bus.Reader]: it reads by consumers of its own, which the servers forget.
package server
