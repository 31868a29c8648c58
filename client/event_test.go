package client_test

import (
	"strings"
	"testing"
	"time"

	"bridge/client"
	"bridge/sink"
)

func TestDataOfAnEvent(t *testing.T) {
	made := time.UnixMilli(1_772_323_207_250).UTC()
	for name, c := range map[string]struct {
		contentType, body, data string
		time                    time.Time
	}{
		"Eiffel":      {sink.ContentType, `{"meta":{"id":"1","time":1772323207000},"data":{"id":9007199254740993},"links":[]}`, `{"id":9007199254740993}`, time.UnixMilli(1_772_323_207_000).UTC()},
		"CloudEvents": {"application/cloudevents+json", `{"specversion":"1.0","time":"2026-03-01T00:00:07Z","data":{"id":7}}`, `{"id":7}`, time.Date(2026, 3, 1, 0, 0, 7, 0, time.UTC)},
		"a row":       {"application/vnd.row+json", `{"id":7,"data":1}`, `{"id":7,"data":1}`, made},
		"no time":     {sink.ContentType, `{"meta":{},"data":{}}`, `{}`, made},
	} {
		t.Run(name, func(t *testing.T) {
			e := client.Event{ContentType: c.contentType, Body: []byte(c.body), Published: made}
			data, err := e.Data()
			if err != nil || string(data) != c.data {
				t.Errorf("the data are %s, %v", data, err)
			}
			if got := e.Time(); !got.Equal(c.time) {
				t.Errorf("the time is %v, want %v", got, c.time)
			}
			var row struct{ ID uint64 }
			if err := e.Decode(&row); err != nil {
				t.Error(err)
			}
			if name == "Eiffel" && row.ID != 9007199254740993 {
				t.Errorf("the id is %d", row.ID)
			}
		})
	}
	t.Run("what is no JSON is an error that names the event", func(t *testing.T) {
		e := client.Event{ID: "4711", Body: []byte("<xml>")}
		if _, err := e.Data(); err == nil || !strings.Contains(err.Error(), "4711") {
			t.Errorf("it gives %v", err)
		}
	})
	t.Run("a tombstone has none", func(t *testing.T) {
		if data, err := (&client.Event{}).Data(); data != nil || err != nil {
			t.Errorf("it gives %s, %v", data, err)
		}
	})
}
