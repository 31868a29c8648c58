package tap

import (
	"encoding/json"
	"time"

	"example.org/bridge/sink"
)

// Born returns the time of the row, which is meta.time of the event. ok is false where the row has
// none: meta.time is then the database's clock at the read.
func (e *Event) Born() (at time.Time, ok bool) {
	m := &e.Message
	if !e.Timed || m.State.Kind == sink.StateAbsent {
		return at, false
	}
	var ms int64
	switch m.Format {
	case sink.FormatRow, sink.FormatPayload:
		if m.Bare == nil {
			return at, false
		}
		ms = m.Bare.Time
	case sink.FormatCloudEvents:
		var cloud struct{ Data document }
		if json.Unmarshal(m.Value, &cloud) != nil {
			return at, false
		}
		ms = cloud.Data.Meta.Time
	default:
		var doc document
		if json.Unmarshal(m.Value, &doc) != nil {
			return at, false
		}
		ms = doc.Meta.Time
	}
	return time.UnixMilli(ms).UTC(), ms != 0
}

// document is the part of an event that has its time.
type document struct {
	Meta struct{ Time int64 }
}

// Delay is how long it took from the time of the row until the event was acknowledged: the
// difference of two clocks, and 0 where it would be below.
func (e *Event) Delay(born time.Time) time.Duration { return max(0, e.Acknowledged.Sub(born)) }
