package deadletter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.org/bridge/internal/deadletter"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
)

// deadLetters is a bus with messages.
type deadLetters struct {
	verify.Bus
	messages []*verify.Message
}

func (b *deadLetters) Read(_ context.Context, each func(*verify.Message) error, progress func(done, total uint64)) error {
	for _, m := range b.messages {
		if err := each(m); err != nil {
			return err
		}
	}
	progress(1, 1)
	return nil
}

// put adds a dead letter to the bus, made the given seconds after the start.
func (b *deadLetters) put(seconds int64, row uint64, event, reason string, entity []byte) {
	m := sink.DeadLetter(sink.Refused{Reason: reason, Entity: entity, Message: sink.Message{
		Stream: "orders", Shard: fmt.Sprint("t_", row%2), RowID: row, ID: event, Value: []byte(`{"meta":{"time":5}}`), Time: time.Unix(1000+seconds, 0),
	}}, "dead", 4096)
	read := &verify.Message{Value: m.Value, Header: make(map[string]string)}
	new(sink.Headers).Each(&m, func(name, value string) { read.Header[name] = value })
	b.messages = append(b.messages, read)
}

func TestRead(t *testing.T) {
	b := &deadLetters{}
	b.put(3, 7, "c", "too large", nil)
	b.put(1, 5, "a", "too large", []byte("x"))
	b.put(2, 6, "b", "too large", nil)
	b.put(9, 5, "a", "much too large", nil)
	b.messages = append(b.messages, &verify.Message{Value: []byte("hello")}, &verify.Message{Value: b.messages[0].Value})
	found, err := deadletter.Read(t.Context(), b, nil, func(uint64, uint64) {})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range found.Messages {
		got = append(got, fmt.Sprintf("%s %s %d %s %q %d-%d %d times", l.EventID, l.Shard, l.RowID, l.Reason, l.Entity, l.First.Unix(), l.Last.Unix(), l.Count))
	}
	const want = `[a t_1 5 much too large "x" 1001-1009 2 times b t_0 6 too large "" 1002-1002 1 times c t_1 7 too large "" 1003-1003 1 times]`
	if fmt.Sprint(got) != want || found.Others != 2 {
		t.Errorf("%v and %d others, want\n%s", got, found.Others, want)
	}

	found, err = deadletter.Read(t.Context(), b, func(l *sink.DeadLetterDocument) bool { return l.Shard == "t_0" }, func(uint64, uint64) {})
	if err != nil || len(found.Messages) != 1 || found.Messages[0].EventID != "b" || found.Messages[0].EventTime != 5 {
		t.Errorf("%+v, %v", found, err)
	}
}
