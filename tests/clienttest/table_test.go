package clienttest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"example.org/bridge/client"
	"example.org/bridge/client/jetstream"
	"example.org/bridge/client/kafka"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/must"
)

// TestHeadersOfFormerVersions: they say the type and the time.
func TestHeadersOfFormerVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(memory.Options{})
		w := newWriter(t, b, "orders", 1)
		w.write("a", "1")
		table := readChanged(t, b, func(m *sink.Stored) {
			set(m, sink.HeaderVersion, "")
			for name, value := range map[string]string{
				sink.HeaderContentType: sink.ContentType, sink.HeaderType: "OrderAddedEvent", sink.HeaderVersion: "0.9.0", sink.HeaderPublishedAt: "2026-03-01T00:00:01.500Z",
			} {
				m.Headers = append(m.Headers, sink.Header{Name: name, Value: []byte(value)})
			}
		})
		e, _ := table.Get("a")
		if e.Type != "OrderAddedEvent" || e.Version != "0.9.0" || e.Operation != client.Added || e.Published.UnixMilli() != 1772323201500 {
			t.Errorf("the event is %+v", e)
		}
	})
}

func TestWhatATableCannotRead(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sink.Stored)
		want   error
		text   string
	}{
		"a newer form": {func(m *sink.Stored) { set(m, sink.HeaderState, "2 1 1") }, sink.ErrNewerForm, "orders at offset 1"},
		"a bad state":  {func(m *sink.Stored) { set(m, sink.HeaderState, "nonsense") }, nil, sink.HeaderState},
		"a bad row":    {func(m *sink.Stored) { set(m, sink.HeaderRowID, "x") }, nil, sink.HeaderRowID},
		"a bad id":     {func(m *sink.Stored) { set(m, sink.HeaderID, "x") }, nil, sink.HeaderID},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBus(memory.Options{})
			w := newWriter(t, b, "orders", 1)
			w.write("a", "1")
			table := must.Get(client.NewTable(changing{b, c.change}, options("orders")))(t)
			err := table.Run(t.Context())
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("Run returns %v", err)
			}
		})
	}
	t.Run("a message without a state is counted and passed over", func(t *testing.T) {
		b := newBus(memory.Options{})
		w := newWriter(t, b, "orders", 1)
		w.write("a", "1")
		table := readChanged(t, b, func(m *sink.Stored) { set(m, sink.HeaderState, ""); set(m, sink.HeaderDomain, "") })
		if s := table.Stats(); s.Stateless != 1 || s.Entities != 0 || s.Foreign != 0 {
			t.Errorf("the counts are %+v", s)
		}
	})
	t.Run("a tombstone deletes, with its headers or without", func(t *testing.T) {
		for _, bare := range []bool{false, true} {
			b := newBus(memory.Options{})
			w := newWriter(t, b, "orders", 1)
			w.write("a", "1")
			w.write("b", "1")
			null := w.message("a", "1")
			null.Value = nil
			w.Publish(null)
			table := readChanged(t, b, func(m *sink.Stored) {
				if m.Value == nil && bare {
					m.Headers = nil
				}
			})
			if got := contents(table); got != "b=1" {
				t.Errorf("without headers %v: the table has %q", bare, got)
			}
		}
	})
}

// readChanged returns a table that is ready, with what w has published as change makes it.
func readChanged(t *testing.T, b *memoryBus, change func(*sink.Stored)) *client.Table {
	t.Helper()
	table := must.Get(client.NewTable(changing{b, change}, options("orders")))(t)
	clienttest.Start(t, table.Run)
	<-table.Ready()
	return table
}

type changing struct {
	*memoryBus
	change func(*sink.Stored)
}

func (b changing) Open(client.Opening) (client.Reader, error) { return reader{changed(b)}, nil }

type changed changing

func (b changed) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	return b.memoryBus.Read(ctx, span, func(m *sink.Stored) error {
		b.change(m)
		return each(m)
	})
}

// set sets a header; "" removes it.
func set(m *sink.Stored, name, value string) {
	var kept []sink.Header
	for _, h := range m.Headers {
		if h.Name != name {
			kept = append(kept, h)
		} else if value != "" {
			kept = append(kept, sink.Header{Name: name, Value: []byte(value)})
		}
	}
	m.Headers = kept
}

func TestOptions(t *testing.T) {
	b, handler := newBus(memory.Options{}), func(context.Context, client.Event) error { return nil }
	table := func(o client.Options) error {
		_, err := client.NewTable(b, o)
		return err
	}
	events := func(group string, handler client.Handler) error {
		_, err := client.NewEvents(b, group, options("orders"), handler)
		return err
	}
	_, onKafka := kafka.New(kafka.Options{})
	_, onJetStream := jetstream.New(jetstream.Options{})
	for want, err := range map[string]error{
		"Brokers": onKafka, "URLs": onJetStream, "group": events("", handler), "Handler": events("group", nil),
		"Stream": table(client.Options{Destinations: []string{"orders"}}), "Destinations": table(client.Options{Stream: "orders"}),
		"KeepFor": table(client.Options{Stream: "orders", Destinations: []string{"orders"}, KeepFor: -1}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v", want, err)
		}
	}
}
