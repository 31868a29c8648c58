package bus_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"example.org/bridge/internal/verify"
	"example.org/bridge/internal/verify/bus"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
)

// closing closes a bus that was opened at the end of the test.
func closing(t *testing.T, b *bus.Bus, err error) *bus.Bus {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// read returns what one Read hands out, as partition, offset, key, value and row id.
func read(t *testing.T, b *bus.Bus) (got []string) {
	t.Helper()
	var last, total uint64
	err := b.Read(t.Context(), func(m *verify.Message) error {
		got = append(got, fmt.Sprintf("%d/%d %s=%s %s", m.Partition, m.At, m.Key, m.Value, m.Header["bridge-row-id"]))
		return nil
	}, func(done, of uint64) { last, total = done, of })
	if err != nil {
		t.Fatal(err)
	}
	if last != total {
		t.Errorf("progress ended with %d of %d", last, total)
	}
	return got
}

// early is a reader that ends one message early and says nothing of it.
type early struct{ *memory.Sink }

func (r early) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	span.To--
	return r.Sink.Read(ctx, span, each)
}

func TestReaderThatEndsEarly(t *testing.T) {
	s := memory.New(memory.Options{})
	if _, err := s.Publish(t.Context(), []sink.Message{{Destination: "t"}, {Destination: "t"}, {Destination: "t"}}); err != nil {
		t.Fatal(err)
	}
	for reader, want := range map[bus.Reader]string{s: "", early{s}: "ended at 3, before 4"} {
		b, err := bus.Open(t.Context(), bus.Options{Reader: reader, Subjects: []string{"t"}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = b.Read(t.Context(), func(*verify.Message) error { n++; return nil }, func(uint64, uint64) {})
		if want == "" && (err != nil || n != 3) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d messages, %v, want %q", n, err, want)
		}
	}
}
