package shard_test

import (
	"log/slog"
	"testing"

	"bridge/internal/tracing"
	"bridge/internal/tracing/tracingtest"
	"bridge/sink"
)

// TestATracedBatch: the messages of a batch carry its span, and are the same events as without.
func TestATracedBatch(t *testing.T) {
	publish := func(t *testing.T, tracer *tracing.Tracer) []sink.Message {
		t.Helper()
		b := newBench(t)
		b.opts.Tracer, b.opts.BatchRows = tracer, 4
		for range 10 {
			b.table.Insert("name", "2020-01-01 00:00:00.000000")
		}
		_, stop := b.run(t)
		eventually(t, "drained", func() bool { return b.position(t) == 10 })
		stop()
		return b.bus.Messages(topic)
	}
	collector := tracingtest.Start(t)
	tracer, err := tracing.New(tracing.Options{Endpoint: collector.URL + "/v1/traces", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	traced := publish(t, tracer)
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	spans := map[string]tracingtest.Span{}
	rows := int64(0)
	for _, s := range collector.Spans() {
		switch spans[s.ID] = s; s.Name {
		case "batch":
			rows += s.Attributes["bridge.rows"].(int64)
		case "publish":
			spans["00-"+s.Trace+"-"+s.ID+"-01"] = s
		}
	}
	t.Run("has its rows in one span", func(t *testing.T) {
		if rows != 10 {
			t.Errorf("%d rows in %+v", rows, collector.Spans())
		}
	})
	t.Run("gives each message the span of its batch", func(t *testing.T) {
		for _, m := range traced {
			publish, known := spans[m.TraceParent]
			batch := spans[publish.Parent]
			if !known || batch.Name != "batch" || batch.Attributes["bridge.stream"] != m.Stream || batch.Attributes["bridge.shard"] != m.Shard {
				t.Errorf("row %d has %q: %+v, %+v", m.RowID, m.TraceParent, publish, batch)
			}
		}
	})
	t.Run("is the same events as without", func(t *testing.T) {
		plain := publish(t, nil)
		for i, m := range plain {
			if m.TraceParent != "" || m.ID != traced[i].ID || m.State.Digest != traced[i].State.Digest || string(m.Value) != string(traced[i].Value) {
				t.Errorf("%+v\ntraced %+v", m, traced[i])
			}
		}
		if len(plain) != len(traced) {
			t.Errorf("%d messages, %d traced", len(plain), len(traced))
		}
	})
}
