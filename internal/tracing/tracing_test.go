package tracing

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/tracing/tracingtest"
	"example.org/bridge/tests/must"
)

// The end of the process waits for a machine that is busy with other things.
func init() { closeTimeout = time.Minute }

// open returns a tracer that posts to a collector, and what ends it.
func open(t *testing.T, c *tracingtest.Collector, change func(*Options)) (tracer *Tracer, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	o := Options{Endpoint: c.URL + "/v1/traces", Version: "v1.2.3", Logger: slog.New(slog.NewTextHandler(log, nil))}
	if change != nil {
		change(&o)
	}
	tracer = must.Get(New(o))(t)
	return tracer, log
}

func named(spans []tracingtest.Span, name string) (some []tracingtest.Span) {
	for _, s := range spans {
		if s.Name == name {
			some = append(some, s)
		}
	}
	return some
}

func TestABatchIsOneSpan(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	c := tracingtest.Start(t)
	tracer, log := open(t, c, func(o *Options) { o.Headers = map[string]string{"Authorization": "Bearer of-spans"} })
	asked := time.Now().Add(-3 * time.Second)
	span := tracer.Begin(Batch{Stream: "orders", Shard: "orders_07", Rows: 3, Bytes: 700, First: 11, Last: 1 << 63, Asked: asked, Got: asked.Add(time.Second)})
	parent := span.Parent()
	span.End(nil)
	failed := tracer.Begin(Batch{Asked: asked, Got: asked})
	failed.End(errors.New("the bus is closed"))
	must.OK(t, tracer.Close())
	spans := c.Spans()
	batches, reads, publishes := named(spans, "batch"), named(spans, "read"), named(spans, "publish")
	if len(batches) != 2 || len(reads) != 2 || len(publishes) != 2 || len(spans) != 6 {
		t.Fatalf("%+v; %s", spans, log)
	}
	batch, read, publish := batches[0], reads[0], publishes[0]
	t.Run("from the begin of the read to the acknowledgement, with read and publish as children", func(t *testing.T) {
		if batch.Parent != "" || read.Parent != batch.ID || publish.Parent != batch.ID || read.Trace != batch.Trace || publish.Trace != batch.Trace {
			t.Errorf("%+v\n%+v\n%+v", batch, read, publish)
		}
		if batch.Begin != uint64(asked.UnixNano()) || read.End-read.Begin != uint64(time.Second) || batch.End < publish.End || publish.Begin < read.End {
			t.Errorf("%+v\n%+v\n%+v", batch, read, publish)
		}
	})
	t.Run("with what the batch is", func(t *testing.T) {
		for key, want := range map[string]any{
			"bridge.stream": "orders", "bridge.shard": "orders_07", "bridge.rows": int64(3), "bridge.bytes": int64(700),
			"bridge.first_id": "11", "bridge.last_id": "9223372036854775808",
		} {
			if got := batch.Attributes[key]; got != want {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
		for key, want := range map[string]any{"service.name": "bridge", "service.version": "v1.2.3", "deployment.environment.name": "test"} {
			if got := batch.Resource[key]; got != want {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
	})
	t.Run("which consumers continue", func(t *testing.T) {
		if want := "00-" + publish.Trace + "-" + publish.ID + "-01"; parent != want {
			t.Errorf("traceparent %s, want %s", parent, want)
		}
	})
	t.Run("and a failed one says so", func(t *testing.T) {
		if batch.Failed || publish.Failed || !batches[1].Failed || !publishes[1].Failed {
			t.Errorf("%+v", spans)
		}
	})
	if got := c.Requests()[0].Header.Get("Authorization"); got != "Bearer of-spans" || log.Len() > 0 {
		t.Errorf("header %q, log %s", got, log)
	}
}

func TestMalformedAttributesOfTheProcessAreLogged(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,malformed")
	c := tracingtest.Start(t)
	tracer, log := open(t, c, nil)
	tracer.Begin(Batch{Asked: time.Now(), Got: time.Now()}).End(nil)
	must.OK(t, tracer.Close())
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "OTEL_RESOURCE_ATTRIBUTES") {
		t.Errorf("log %s", log)
	}
	batches := named(c.Spans(), "batch")
	if len(batches) != 1 || batches[0].Resource["service.name"] != "bridge" || batches[0].Resource["deployment.environment.name"] != "test" {
		t.Errorf("%+v", batches)
	}
}

func TestWhatIsNotSampledHasATraceWithoutTheFlag(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	c := tracingtest.Start(t)
	tracer, _ := open(t, c, nil)
	span := tracer.Begin(Batch{Asked: time.Now(), Got: time.Now()})
	span.End(nil)
	if parent := span.Parent(); !strings.HasSuffix(parent, "-00") || len(parent) != 55 {
		t.Errorf("traceparent %s", parent)
	}
	if err := tracer.Close(); err != nil || len(c.Requests()) > 0 {
		t.Errorf("%v, %d requests", err, len(c.Requests()))
	}
}

func TestACollectorThatIsAway(t *testing.T) {
	send := func(t *testing.T, tracer *Tracer) {
		t.Helper()
		tracer.Begin(Batch{Asked: time.Now(), Got: time.Now()}).End(nil)
		must.OK(t, tracer.Close())
	}
	t.Run("is asked again", func(t *testing.T) {
		c := tracingtest.Start(t)
		c.Answer(503)
		tracer, log := open(t, c, nil)
		send(t, tracer)
		if len(c.Spans()) != 3 || len(c.Requests()) != 2 || log.Len() > 0 {
			t.Errorf("%d spans, %d requests: %s", len(c.Spans()), len(c.Requests()), log)
		}
	})
	t.Run("and one that refuses is not, with a line in the log", func(t *testing.T) {
		c := tracingtest.Start(t)
		c.Answer(400)
		tracer, log := open(t, c, nil)
		send(t, tracer)
		if len(c.Requests()) != 1 || strings.Count(log.String(), "spans were lost") != 1 || !strings.Contains(log.String(), "400") {
			t.Errorf("%d requests: %s", len(c.Requests()), log)
		}
	})
}

func TestSpansGoOverTLS(t *testing.T) {
	c := &tracingtest.Collector{}
	server := httptest.NewTLSServer(c)
	defer server.Close()
	c.URL = server.URL
	tracer, log := open(t, c, func(o *Options) {
		o.TLS = func() (*tls.Config, error) {
			return server.Client().Transport.(*http.Transport).TLSClientConfig.Clone(), nil
		}
	})
	tracer.Begin(Batch{Asked: time.Now(), Got: time.Now()}).End(nil)
	if err := tracer.Close(); err != nil || len(c.Spans()) != 3 {
		t.Errorf("%v, %d spans: %s", err, len(c.Spans()), log)
	}
}
