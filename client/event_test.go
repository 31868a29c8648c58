package client_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bridge/client"
	"bridge/sink"
	"bridge/sink/memory"
)

// TestFormats has tables read messages of each EVENT_FORMAT.
func TestFormats(t *testing.T) {
	const eiffel = `{"meta":{"id":"1","time":1772323207000},"data":{"id":9007199254740993,"says":"1"},"links":[]}`
	const row = `{"id":9007199254740993,"says":"1"}`
	cloud := func(m *sink.Stored) { set(m, sink.HeaderContentType, "application/cloudevents+json") }
	timed := func(m *sink.Stored) {
		m.Headers = append(m.Headers, sink.Header{Name: "eiffel-time", Value: []byte("1772323207000")})
	}
	for name, c := range map[string]struct {
		body   string
		change func(*sink.Stored)
		want   client.Format
		time   int64
	}{
		"eiffel":                {eiffel, func(*sink.Stored) {}, client.FormatEiffel, 1772323207000},
		"eiffel without a time": {`{"data":` + row + `}`, func(*sink.Stored) {}, client.FormatEiffel, 1772323207250},
		"cloudevents":           {`{"specversion":"1.0","data":` + eiffel + `}`, cloud, client.FormatCloudEvents, 1772323207000},
		"row":                   {row, timed, client.FormatRow, 1772323207000},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBus(memory.Options{})
			w := &writer{t: t, bus: b, to: "orders", epoch: 1}
			m := w.message("a", "1")
			m.Value = []byte(c.body)
			w.publish(m)
			table, err := client.NewTable(changing{b, c.change}, options("orders"))
			if err != nil {
				t.Fatal(err)
			}
			run(t, table.Run)
			<-table.Ready()
			e, _ := table.Get("a")
			var columns struct{ ID uint64 }
			if err := e.Decode(&columns); err != nil || columns.ID != 9007199254740993 || e.Format != c.want {
				t.Errorf("the event has the format %d and the columns %+v, %v", e.Format, columns, err)
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

// TestTombstonesAreNoEvents has the Deleted event before a tombstone handed over, and not that.
func TestTombstonesAreNoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(memory.Options{})
		w := &writer{t: t, bus: b, to: "orders", epoch: 1}
		w.write("a", "1")
		w.write("a", "")
		null := w.message("a", "")
		null.Value = nil
		w.publish(null)
		h := &handled{}
		events, err := client.NewEvents(b, "group", options("orders"), h.handle)
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, events.Run)
		synctest.Wait()
		if got := h.String(); got != "a=1, a is gone" {
			t.Errorf("handed over was %s", got)
		}
		stop()
	})
}
