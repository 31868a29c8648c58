package deadletter_test

import (
	"fmt"
	"testing"
	"time"

	"example.org/bridge/internal/deadletter"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/must"
)

// put publishes a dead letter, made the given seconds after the start.
func put(t *testing.T, bus *memory.Sink, seconds int64, row uint64, event, reason string, entity []byte) {
	t.Helper()
	publish(t, bus, sink.DeadLetter(sink.Refused{Reason: reason, Entity: entity, Message: sink.Message{
		Domain: "ours", Stream: "orders", Shard: fmt.Sprint("t_", row%2), RowID: row, ID: event, Value: []byte(`{"meta":{"time":5}}`), Time: time.Unix(1000+seconds, 0),
	}}, "dead", 4096))
}

func publish(t *testing.T, bus *memory.Sink, m sink.Message) {
	t.Helper()
	must.Get(bus.Publish(t.Context(), []sink.Message{m}))(t)
}

func TestRead(t *testing.T) {
	bus := memory.New(memory.Options{Partitions: 1})
	put(t, bus, 3, 7, "c", "too large", nil)
	put(t, bus, 1, 5, "a", "too large", []byte("x"))
	put(t, bus, 2, 6, "b", "too large", nil)
	put(t, bus, 9, 5, "a", "much too large", nil)
	publish(t, bus, sink.DeadLetter(sink.Refused{Message: sink.Message{Domain: "theirs", Stream: "orders", Shard: "t_1", RowID: 5, ID: "a"}}, "dead", 4096))
	publish(t, bus, sink.Message{Destination: "dead", Value: []byte("hello")})
	publish(t, bus, sink.Message{Destination: "dead", Value: bus.Messages("dead")[0].Value})
	read := func(want func(*sink.DeadLetterDocument) bool) deadletter.Found {
		t.Helper()
		b := must.Get(verify.OpenBus(t.Context(), verify.BusOptions{Reader: bus, Topics: []string{"dead"}}))(t)
		found := must.Get(deadletter.Read(t.Context(), b, "ours", want, func(uint64, uint64) {}))(t)
		return found
	}
	found := read(nil)
	var got []string
	for _, l := range found.Messages {
		got = append(got, fmt.Sprintf("%s %s %d %s %q %d-%d %d times", l.EventID, l.Shard, l.RowID, l.Reason, l.Entity, l.First.Unix(), l.Last.Unix(), l.Count))
	}
	const want = `[a t_1 5 much too large "x" 1001-1009 2 times b t_0 6 too large "" 1002-1002 1 times c t_1 7 too large "" 1003-1003 1 times]`
	if fmt.Sprint(got) != want || found.Others != 2 {
		t.Errorf("%v and %d others, want\n%s", got, found.Others, want)
	}

	found = read(func(l *sink.DeadLetterDocument) bool { return l.Shard == "t_0" })
	if len(found.Messages) != 1 || found.Messages[0].EventID != "b" || found.Messages[0].EventTime != 5 {
		t.Errorf("%+v", found)
	}
}
