package tracing

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options say where spans go. What a field does not say, such as the sampler and further attributes
// of the process, the SDK reads from its own variables.
type Options struct {
	// Endpoint is the URL that spans are posted to, with its path.
	Endpoint string
	// Headers are sent with each request; they may hold a secret.
	Headers map[string]string
	// Timeout bounds one request. Defaults to 10 s.
	Timeout time.Duration
	// TLS is asked at each connect; nil is the system's.
	TLS func() (*tls.Config, error)
	// Version is the version of the program.
	Version string
	// Logger gets a line when spans are lost, at most one a minute, and one when attributes of the
	// process cannot be read.
	Logger *slog.Logger
}

// closeTimeout bounds how long the end of the process waits for a collector.
var closeTimeout = 5 * time.Second

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// New returns a tracer. It connects when the first spans are sent; close it.
func New(o Options) (*Tracer, error) {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	exporter := otlptrace.NewUnstarted(newUploader(o))
	process, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", "bridge"), attribute.String("service.version", o.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	switch {
	case errors.Is(err, resource.ErrPartialResource):
		o.Logger.Warn("spans lack attributes of the process: correct OTEL_RESOURCE_ATTRIBUTES", "error", err)
	case err != nil:
		return nil, fmt.Errorf("read the attributes of the process for its spans: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(process))
	return &Tracer{provider: provider, tracer: provider.Tracer("bridge")}, nil
}

// Close sends what is left, for 5 s at most. Spans that are lost by then are no error.
func (t *Tracer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
	return nil
}

// Batch is what a span says of a batch.
type Batch struct {
	Stream, Shard string
	Rows, Bytes   int
	// First and Last are the ids of its first and its last row.
	First, Last uint64
	// Asked and Got are when its read began and ended.
	Asked, Got time.Time
}

// Span is a batch that is about to be published.
type Span struct {
	batch, publish trace.Span
}

// Begin begins the span of a batch, which is about to be published.
func (t *Tracer) Begin(b Batch) Span {
	ctx, batch := t.tracer.Start(context.Background(), "batch", trace.WithNewRoot(), trace.WithTimestamp(b.Asked), trace.WithAttributes(
		attribute.String("bridge.stream", b.Stream), attribute.String("bridge.shard", b.Shard),
		attribute.Int("bridge.rows", b.Rows), attribute.Int("bridge.bytes", b.Bytes),
		attribute.String("bridge.first_id", fmt.Sprint(b.First)), attribute.String("bridge.last_id", fmt.Sprint(b.Last)),
	))
	_, read := t.tracer.Start(ctx, "read", trace.WithTimestamp(b.Asked), trace.WithSpanKind(trace.SpanKindClient))
	read.End(trace.WithTimestamp(b.Got))
	_, publish := t.tracer.Start(ctx, "publish", trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.Int("messaging.batch.message_count", b.Rows)))
	return Span{batch, publish}
}

// Parent returns the value of the header traceparent (W3C Trace Context, level 1): the publish span
// as the parent of what a consumer does.
func (s Span) Parent() string {
	c := s.publish.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// End ends the span: the bus has acknowledged all messages of the batch, or err says why not.
func (s Span) End(err error) {
	if err != nil {
		s.publish.RecordError(err)
		s.publish.SetStatus(codes.Error, err.Error())
		s.batch.SetStatus(codes.Error, "not published")
	}
	s.publish.End()
	s.batch.End()
}
