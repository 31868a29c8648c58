package tracingtest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span as the collector got it, with its ids in hexadecimal digits.
type Span struct {
	Name              string
	Trace, ID, Parent string
	// Begin and End are Unix times in nanoseconds.
	Begin, End uint64
	Failed     bool
	// Attributes are those of the span, Resource those of the process; whole numbers are int64.
	Attributes, Resource map[string]any
}

// Collector keeps spans. It is safe for concurrent use.
type Collector struct {
	// URL is what OTEL_EXPORTER_OTLP_ENDPOINT is to be.
	URL string

	mu       sync.Mutex
	spans    []Span
	requests []*http.Request
	answers  []int
}

// Start starts a collector, which ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Answer has the next requests answered with these statuses, and their spans dropped.
func (c *Collector) Answer(statuses ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, statuses...)
}

// Spans returns the spans so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Requests returns the requests so far.
func (c *Collector) Requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*http.Request(nil), c.requests...)
}

// ServeHTTP takes spans.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	if len(c.answers) > 0 {
		w.WriteHeader(c.answers[0])
		c.answers = c.answers[1:]
		return
	}
	var data tracepb.TracesData
	if err == nil {
		err = proto.Unmarshal(body, &data)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	for _, of := range data.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, Span{
					Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
					Begin: s.StartTimeUnixNano, End: s.EndTimeUnixNano, Failed: s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR,
					Attributes: attributes(s.Attributes), Resource: attributes(of.Resource.GetAttributes()),
				})
			}
		}
	}
}

func attributes(list []*commonpb.KeyValue) map[string]any {
	all := map[string]any{}
	for _, one := range list {
		switch value := one.Value.GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			all[one.Key] = value.StringValue
		case *commonpb.AnyValue_IntValue:
			all[one.Key] = value.IntValue
		}
	}
	return all
}
