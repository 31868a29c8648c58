package event_test

import (
	"strings"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func benchTable() *table {
	return newTable(
		cell{"id", source.Int, 0, "123456789"},
		cell{"data_center", source.Text, 0, "DefaultDataCenter"},
		cell{"revision", source.Text, 0, strings.Repeat("6f3a0c1e", 4)},
		cell{"app_name", source.Text, 0, "order-center"},
		cell{"base_params", source.Text, 0, strings.Repeat(`{"zone":"a","n":1}`, 6)},
		cell{"service_params", source.Text, 0, strings.Repeat("com.example.OrderFacade ", 3)},
		cell{"client_version", source.Text, 0, "5.14.2"},
		cell{"deleted", source.Int, 0, "0"},
		cell{"gmt_create", source.Timestamp, 0, "2026-02-28 23:59:59"},
		cell{"gmt_modified", source.Timestamp, 0, "2026-03-01 00:00:07"},
	).key("data_center", "revision").created("gmt_create").modified("gmt_modified").deleted("deleted")
}

func BenchmarkAppend(b *testing.B) {
	rows := benchTable()
	encoder := bind(b, options(), rows)
	row := rows.row(123456789)
	size := 0
	for _, v := range rows.values {
		size += len(v)
	}
	buf := make([]byte, 0, 4<<10)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := encoder.Append(buf, row); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEncodingAllocatesNothing(t *testing.T) {
	for name, rows := range map[string]*table{"a usual row": benchTable(), "every kind": everyKind().keyOfAll()} {
		row := rows.row(123456789)
		for _, format := range append(otherFormats, event.FormatEiffel) {
			o := options()
			o.Format = format
			encoder := bind(t, o, rows)
			buf := make([]byte, 0, 16<<10)
			for what, call := range map[string]func() error{
				"a digest": func() error { _, err := encoder.Digest(row.Row); return err },
				"an id":    func() error { _, err := event.ParseID(earlier); return err },
				"an event": func() error { _, _, err := encoder.Append(buf, row); return err },
			} {
				must.OK(t, call())
				// With the race detector a pool of the standard library forgets by chance: the mean
				// of a few calls is not a whole number.
				if got := testing.AllocsPerRun(2000, func() { _ = call() }); got > 0 {
					t.Errorf("%s of %s as %s takes %v allocations", what, name, format, got)
				}
			}
		}
	}
}
