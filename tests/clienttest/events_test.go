package clienttest_test

import (
	"bytes"
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"example.org/bridge/client"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/must"
)

func TestAnEventThatCannotBeReadEndsRun(t *testing.T) {
	b := newBus(memory.Options{})
	w := newWriter(t, b, "orders", 1)
	m := w.message("a", "1")
	m.ID = "no UUID"
	w.Publish(m)
	events := must.Get(client.NewEvents(b, "group", options("orders"), func(context.Context, client.Event) error { return nil }))(t)
	if err := events.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "orders at offset 1") {
		t.Errorf("Run returns %v", err)
	}
}

func TestFormats(t *testing.T) {
	const row = `{"id":9007199254740993,"says":"1"}`
	const meta = `{"id":"1","type":"OrderModifiedEvent","version":"2.0.0","time":1772323207000}`
	const eiffel = `{"meta":` + meta + `,"data":` + row + `,"links":[]}`
	with := func(pairs ...string) func(m *sink.Stored) {
		return func(m *sink.Stored) {
			for i := 0; i < len(pairs); i += 2 {
				m.Headers = append(m.Headers, sink.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
			}
		}
	}
	cloud := with(sink.HeaderContentType, "application/cloudevents+json")
	named := func(m *sink.Stored) {
		set(m, sink.HeaderVersion, "")
		with(sink.HeaderType, "OrderModifiedEvent", sink.HeaderVersion, "2.0.0")(m)
	}
	timed := func(m *sink.Stored) {
		named(m)
		with(sink.HeaderTime, "1772323207000")(m)
	}
	none := func(*sink.Stored) {}
	for name, c := range map[string]struct {
		body   string
		change func(*sink.Stored)
		want   client.Format
		time   int64
	}{
		"eiffel":                   {eiffel, none, client.FormatEiffel, 1772323207000},
		"eiffel in another order":  {`{ "data" : ` + row + `, "meta" : ` + meta + `}`, none, client.FormatEiffel, 1772323207000},
		"eiffel without a time":    {`{"data":` + row + `}`, named, client.FormatEiffel, 1772323207250},
		"cloudevents":              {`{"specversion":"1.0","type":"x","data":` + eiffel + `}`, cloud, client.FormatCloudEvents, 1772323207000},
		"cloudevents with a blank": {`{"specversion":"1.0","type":"x", "data":` + eiffel + `}`, cloud, client.FormatCloudEvents, 1772323207000},
		"row":                      {row, timed, client.FormatRow, 1772323207000},
		"eiffel of 1970":           {`{"meta":{"time":0},"data":` + row + `}`, named, client.FormatEiffel, 0},
		"row of 1970":              {row, func(m *sink.Stored) { named(m); with(sink.HeaderTime, "0")(m) }, client.FormatRow, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBus(memory.Options{})
			w := newWriter(t, b, "orders", 1)
			m := w.message("a", "1")
			m.Value, m.Time = []byte(c.body), time.UnixMilli(1_772_323_207_250)
			w.Publish(m)
			table := readChanged(t, b, c.change)
			e, _ := table.Get("a")
			var columns struct{ ID uint64 }
			if err := e.Decode(&columns); err != nil || columns.ID != 9007199254740993 || e.Format != c.want {
				t.Errorf("the event has the format %d and the columns %+v, %v", e.Format, columns, err)
			}
			if e.Type != "OrderModifiedEvent" || e.Version != "2.0.0" || e.Operation != client.Modified {
				t.Errorf("it is a %s, %s, that has %s", e.Type, e.Version, e.Operation)
			}
			if e.Key != "a" || e.ID != m.ID || e.Stream != m.Stream || e.Shard != m.Shard || e.RowID != m.RowID || !e.Published.Equal(m.Time) || string(e.Body) != c.body {
				t.Errorf("the event is %+v", e)
			}
			if _, there := table.Get("z"); there {
				t.Error("there is an entity that never was")
			}
			if data, err := e.Data(); string(data) != row || err != nil {
				t.Errorf("its data are %s, %v", data, err)
			}
			if got := e.Time().UnixMilli(); got != c.time {
				t.Errorf("its time is %d, want %d", got, c.time)
			}
		})
	}
}

func TestDataOfAnEvent(t *testing.T) {
	t.Run("what is no JSON is an error that names the event", func(t *testing.T) {
		for _, format := range []client.Format{client.FormatEiffel, client.FormatCloudEvents} {
			e := client.Event{ID: "4711", Body: []byte("<xml>"), Format: format, Published: time.UnixMilli(1)}
			if _, err := e.Data(); err == nil || !strings.Contains(err.Error(), "4711") {
				t.Errorf("it gives %v", err)
			}
			if !e.Time().Equal(e.Published) {
				t.Errorf("its time is %v", e.Time())
			}
		}
	})
	t.Run("a tombstone has none", func(t *testing.T) {
		if data, err := (&client.Event{}).Data(); data != nil || err != nil {
			t.Errorf("it gives %s, %v", data, err)
		}
	})
}

func TestAnEventThatIsAColumn(t *testing.T) {
	b := newBus(memory.Options{})
	w := newWriter(t, b, "orders", 1)
	for _, body := range []string{`{"a": 1}`, "no JSON", ""} {
		m := w.message("a", "1")
		m.Value, m.Format = []byte(body), sink.FormatPayload
		m.Bare = &sink.Bare{Time: 1772323207000, Content: "application/json", Headers: []sink.Header{{Name: "trace_id", Value: []byte("t")}}}
		w.Publish(m)
	}
	handled := make(chan client.Event, 3)
	clienttest.Handle(t, b, "group", options("orders"), func(_ context.Context, e client.Event) error {
		e.Body = bytes.Clone(e.Body)
		handled <- e
		return nil
	})
	for _, body := range []string{`{"a": 1}`, "no JSON", ""} {
		e := <-handled
		data, err := e.Data()
		if string(e.Body) != body || string(data) != body || err != nil || e.Body == nil || e.Format != client.FormatPayload ||
			!maps.Equal(e.Headers, map[string]string{"trace_id": "t"}) || e.Time().UnixMilli() != 1772323207000 || e.Type != "OrderModifiedEvent" {
			t.Errorf("got %+v with %q, %v; want %q", e, data, err, body)
		}
	}
}
