package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/source"
)

// samples are values of each kind in their normal form, lives those of a DELETED column that says
// that the row is there; NULL says that of the others.
var (
	samples = map[source.Kind]string{
		source.Int: "1", source.Decimal: "12.50", source.Float: "0.5", source.Text: "text", source.Binary: "bytes", source.Bit: "\x01",
		source.JSON: `{"member":1}`, source.Date: "2026-03-01", source.Clock: "12:00:00",
		source.DateTime: "2026-03-01 12:00:00", source.Timestamp: "2026-03-01 12:00:00",
	}
	lives = map[source.Kind]string{
		source.Int: "0", source.Decimal: "0", source.Float: "0", source.Text: "no", source.Binary: "\x00", source.Bit: "\x00", source.JSON: "0",
	}
)

// sampleTime is when the rows of examples were read, samplePredecessor the id of the event before.
var sampleTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const samplePredecessor = "00000000-0000-5000-8000-000000000000"

// example returns an event of an operation, of a row that no table has.
func (t *Table) example(op event.Op) (json.RawMessage, error) {
	row := source.Row{ID: 1, Values: t.sampleValues()}
	var one event.Event
	var err error
	switch op {
	case event.Deleted:
		var digest event.Digest
		if digest, err = t.Encoder.Digest(row); err == nil {
			_, one, err = t.Encoder.AppendAbsent(nil, event.Absent{Key: bytes.Clone(digest.Key), ID: 1, Read: sampleTime, Predecessor: samplePredecessor})
		}
	case event.Modified:
		_, one, err = t.Encoder.Append(nil, event.Row{Row: row, Op: op, Read: sampleTime, Predecessor: samplePredecessor})
	default:
		_, one, err = t.Encoder.Append(nil, event.Row{Row: row, Read: sampleTime})
	}
	if err != nil {
		return nil, fmt.Errorf("make an example of the operation %s: %w", op, err)
	}
	return json.RawMessage(one.Body), nil
}

func (t *Table) sampleValues() [][]byte {
	values := make([][]byte, len(t.Columns.List))
	for i, column := range t.Columns.List {
		from := samples
		if i == t.Columns.Deleted {
			from = lives
		}
		if value, ok := from[column.Kind]; ok {
			values[i] = []byte(value)
		}
	}
	return values
}
