package tracing

import (
	"bytes"
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

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"example.org/bridge/client/backoff"
)

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

func newUploader(o Options) *uploader {
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
	return &uploader{o: o, client: &http.Client{Transport: transport, Timeout: o.Timeout}}
}

// Start implements otlptrace.Client.
func (u *uploader) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
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

// lost logs that spans did not arrive.
func (u *uploader) lost(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); now.Sub(u.logged) >= logEvery {
		u.logged = now
		u.o.Logger.Warn("spans were lost: the collector does not take them", slog.Any("error", err))
	}
}
