package buscopy_test

import (
	"context"
	"fmt"
	"testing"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/must"
)

// counted is a bus that counts the messages that were read.
type counted struct {
	*memory.Sink
	read int
}

func (b *counted) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	return b.Sink.Read(ctx, span, func(m *sink.Stored) error { b.read++; return each(m) })
}

// TestFollow: no message is read twice, unless the topic was made again.
func TestFollow(t *testing.T) {
	t.Parallel()
	b := &counted{Sink: memory.New(memory.Options{})}
	m := buscopy.NewTopic(b, "t", "")
	next := m.Follow("k.")
	expect := func(want string, read int) {
		t.Helper()
		entries, err := next(t.Context())
		if got := fmt.Sprintf("%s", entries); err != nil || got != want || b.read != read {
			t.Errorf("%s, %d messages read: %v; want %s and %d", got, b.read, err, want, read)
		}
	}
	put := func(key, value string) { t.Helper(); must.OK(t, m.Put(t.Context(), key, []byte(value))) }
	b.Create("t")
	expect("[]", 0)
	put("k.a", "1")
	put("other", "1")
	expect("[{k.a 1}]", 2)
	put("k.b", "2")
	put("k.a", "3")
	expect("[{k.b 2} {k.a 3}]", 4)
	expect("[{k.b 2} {k.a 3}]", 4)
	must.OK(t, m.Delete(t.Context(), []string{"k.b"}))
	expect("[{k.a 3}]", 5)
	b.Wipe()
	put("k.a", "1")
	expect("[{k.a 1}]", 6)
}

// again is a bus that keeps the last message of each key, where the first one that is read is put
// again before.
type again struct {
	*memory.Sink
	put func()
}

func (b *again) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	if put := b.put; put != nil {
		b.put = nil
		put()
		return span.To, nil
	}
	return b.Sink.Read(ctx, span, each)
}

// TestAKeyThatIsPutAgainWhileItIsRead is found: others may wait for the process that it is a sign
// of.
func TestAKeyThatIsPutAgainWhileItIsRead(t *testing.T) {
	t.Parallel()
	b := &again{Sink: memory.New(memory.Options{})}
	m := buscopy.NewTopic(b, "t", "")
	b.Create("t")
	put := func(value string) { must.OK(t, m.Put(t.Context(), "k.a", []byte(value))) }
	put("1")
	b.put = func() { put("2") }
	if got := fmt.Sprintf("%s", must.Get(m.Entries(t.Context(), "k."))(t)); got != "[{k.a 2}]" {
		t.Errorf("it finds %s", got)
	}
}
