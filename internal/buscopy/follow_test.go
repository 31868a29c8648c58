package buscopy_test

import (
	"context"
	"fmt"
	"testing"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/sink"
)

// tape is a bus of one TP that counts the messages that were read.
type tape struct {
	buscopy.Bus
	incarnation string
	stored      []*sink.Stored
	read        int
}

func (b *tape) TPs(context.Context, []string) ([]sink.TP, error) {
	return []sink.TP{{Name: "t/0", Incarnation: b.incarnation, End: uint64(len(b.stored))}}, nil
}

func (b *tape) Read(_ context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	for _, m := range b.stored[span.From:span.To] {
		b.read++
		if err := each(m); err != nil {
			return 0, err
		}
	}
	return span.To, nil
}

func (b *tape) put(key, value string) {
	b.stored = append(b.stored, &sink.Stored{Key: []byte(key), Value: []byte(value)})
}

// TestFollow: no message is read twice, unless the topic was made again.
func TestFollow(t *testing.T) {
	t.Parallel()
	b := &tape{incarnation: "first"}
	m := buscopy.NewMessages(buscopy.MessagesOptions{Bus: b, Key: func(s *sink.Stored) string { return string(s.Key) }})
	next := m.Follow("k.")
	expect := func(want string, read int) {
		t.Helper()
		entries, err := next(t.Context())
		if got := fmt.Sprintf("%s", entries); err != nil || got != want || b.read != read {
			t.Errorf("%s, %d messages read: %v; want %s and %d", got, b.read, err, want, read)
		}
	}
	expect("[]", 0)
	b.put("k.a", "1")
	b.put("other", "1")
	expect("[{k.a 1}]", 2)
	b.put("k.b", "2")
	b.put("k.a", "3")
	expect("[{k.b 2} {k.a 3}]", 4)
	expect("[{k.b 2} {k.a 3}]", 4)
	b.put("k.b", "")
	expect("[{k.a 3}]", 5)
	b.incarnation, b.stored = "second", b.stored[:1]
	expect("[{k.a 1}]", 6)
}
