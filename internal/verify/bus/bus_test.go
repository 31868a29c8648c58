package bus_test

import (
	"context"
	"strings"
	"testing"

	"bridge/internal/verify"
	"bridge/internal/verify/bus"
	"bridge/sink"
	"bridge/sink/sinktest/memory"
)

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

func TestABusThatDoesNotTellItsCompaction(t *testing.T) {
	s := memory.New(memory.Options{})
	if _, err := s.Publish(t.Context(), []sink.Message{{Destination: "t"}}); err != nil {
		t.Fatal(err)
	}
	b, err := bus.Open(t.Context(), bus.Options{Reader: s, Subjects: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := b.Compaction(t.Context(), "t"); err != nil || found != (sink.Compaction{}) {
		t.Errorf("%+v, %v", found, err)
	}
}
