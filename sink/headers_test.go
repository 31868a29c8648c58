package sink_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"bridge/sink"
)

// headersOf returns the headers of m as each yields them.
func headersOf(m *sink.Message, each func(*sink.Message, func(name, value string))) (all []string) {
	each(m, func(name, value string) { all = append(all, name, value) })
	return all
}

func TestHeadersAreThoseOfEachMessage(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 20, 30, 123456789, time.FixedZone("", 3600))
	var headers sink.Headers
	var kept, want [][]string
	for i := range uint64(1000) {
		// Times change and come again, rows are of every length.
		m := sink.Message{
			ID: "a", Type: "b", Version: "c", Stream: "d", Shard: "e", Origin: sink.FromTail, RowID: math.MaxUint64 >> (i % 64), Time: at.Add(time.Duration(i%7/3) * time.Hour),
		}
		kept = append(kept, headersOf(&m, headers.Each))
		want = append(want, headersOf(&m, (*sink.Message).EachHeader))
	}
	for i := range kept {
		if !slices.Equal(kept[i], want[i]) {
			t.Fatalf("message %d: %q, want %q", i, kept[i], want[i])
		}
	}
}

func TestATimeOfZeroIsAHeaderToo(t *testing.T) {
	got := headersOf(&sink.Message{}, new(sink.Headers).Each)
	if last := got[len(got)-1]; last != "0001-01-01T00:00:00.000Z" {
		t.Errorf("%s", last)
	}
}

func TestHeadersOfABatchAllocateNoStringForEachMessage(t *testing.T) {
	m := sink.Message{RowID: 1 << 60, Time: time.Unix(1_760_000_000, 0)}
	var headers sink.Headers
	const messages = 1000
	got := testing.AllocsPerRun(5, func() {
		for range messages {
			m.RowID++
			headers.Each(&m, func(string, string) {})
		}
	})
	if got > messages/50 {
		t.Errorf("%v allocations for %d messages", got, messages)
	}
}
