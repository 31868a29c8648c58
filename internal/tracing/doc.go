// Package tracing makes spans of batches with OpenTelemetry and sends them to a collector by OTLP
// over HTTP: one span a batch, from the begin of the read to the bus's acknowledgement, with the
// read and the publish as its children. The messages of the batch carry the publish span in the
// W3C header traceparent, so that consumers continue the trace.
//
// A process without tracing makes no [Tracer] and nothing of this package.
//
// The spans, their sampling and their encoding are the SDK's. The upload is ours: that of the SDK
// links gRPC in, which made the binary 7.9 MiB larger.
package tracing
