package tracing

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"example.org/bridge/client/backoff"
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

// closeTimeout bounds how long a reload, in which nothing is published, and the end of the process
// wait for a collector.
var closeTimeout = time.Second

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// New returns a tracer. It connects when the first spans are sent; close it.
func New(o Options) (*Tracer, error) {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: false,
	}
	if o.TLS != nil {
		transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := o.TLS()
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{Config: c}).DialContext(ctx, network, addr)
		}
	}
	exporter := otlptrace.NewUnstarted(&uploader{o: o, client: &http.Client{Transport: transport, Timeout: o.Timeout}})
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

// Close sends what is left, for a second at most. Spans that are lost by then are no error.
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

// uploader posts spans to a collector (OTLP/HTTP 1.x, binary protobuf). What fails in a way that
// may heal is tried again within the time that the SDK gives an upload; spans that stay are lost,
// which is logged and never delays a batch.
type uploader struct {
	o      Options
	client *http.Client

	mu     sync.Mutex
	logged time.Time
}

const (
	// retryPause is the first pause before spans are sent again.
	retryPause = time.Second
	logEvery   = time.Minute
	// answerBytes bounds what is read of an answer.
	answerBytes = 64 << 10
)

func (u *uploader) Start(context.Context) error { return nil }

func (u *uploader) Stop(context.Context) error {
	u.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It never fails: lost spans are logged.
func (u *uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData is on the wire what ExportTraceServiceRequest is, whose package needs gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		u.lost(err)
		return nil
	}
	for pause := retryPause; ; pause *= 2 {
		err := u.post(ctx, body)
		if err == nil {
			return nil
		}
		if _, refused := errors.AsType[*refusedError](err); refused || backoff.Pause(ctx, pause) != nil {
			u.lost(err)
			return nil
		}
	}
}

// refusedError says that the collector refuses a request for good.
type refusedError struct{ status string }

func (e *refusedError) Error() string { return "the collector answers " + e.status }

func (u *uploader) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.o.Endpoint, bytes.NewReader(body))
	if err != nil {
		return &refusedError{err.Error()}
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	for name, value := range u.o.Headers {
		request.Header.Set(name, value)
	}
	answer, err := u.client.Do(request)
	if err != nil {
		return err
	}
	// What was read of it counts.
	defer func() { _ = answer.Body.Close() }()
	// The connection is used again once the answer is read.
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, answerBytes))
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("the collector answers %s", answer.Status)
	}
	if answer.StatusCode/100 != 2 {
		return &refusedError{answer.Status}
	}
	return nil
}

func (u *uploader) lost(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); now.Sub(u.logged) >= logEvery {
		u.logged = now
		u.o.Logger.Warn("spans were lost: the collector does not take them", slog.Any("error", err))
	}
}
