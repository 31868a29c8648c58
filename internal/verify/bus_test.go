package verify_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/must"
)

// readOn returns what one Read hands out, as offset and value.
func readOn(t *testing.T, b *verify.Bus) (got []string) {
	t.Helper()
	var last, total uint64
	err := b.Read(t.Context(), func(m *verify.Message) error {
		got = append(got, fmt.Sprintf("%d=%s", m.Offset, m.Value))
		return nil
	}, func(done, of uint64) { last, total = done, of })
	if err != nil || last != total {
		t.Errorf("progress ended with %d of %d, %v", last, total, err)
	}
	return got
}

func TestABusIsReadToItsEnd(t *testing.T) {
	s := memory.New(memory.Options{Partitions: 1})
	publish := func(values ...string) {
		t.Helper()
		for _, value := range values {
			must.Get(s.Publish(t.Context(), []sink.Message{{Destination: "t", Value: []byte(value)}}))(t)
		}
	}
	publish("a", "b", "c", "d")
	s.Delete("t/0", 2)
	b := must.Get(verify.OpenBus(t.Context(), verify.BusOptions{Reader: s, Topics: []string{"t"}}))(t)
	if got, want := readOn(t, b), []string{"1=a", "3=c", "4=d"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if p := b.Partitions[0]; p.Name != "t/0" || p.First != 1 || p.Next != 5 || p.Expired || !p.Thinned {
		t.Errorf("with a hole: %+v", p)
	}
	publish("e", "f")
	s.Expire("t/0", 5)
	if got, want := readOn(t, b), []string{"6=f"}; !slices.Equal(got, want) {
		t.Errorf("then it read %q, want %q", got, want)
	}
	if p := b.Partitions[0]; p.First != 6 || p.Next != 7 || !p.Expired {
		t.Errorf("with an expired head: %+v", p)
	}
	s.Wipe()
	publish("g")
	if err := b.Read(t.Context(), func(*verify.Message) error { return nil }, func(_, _ uint64) {}); err == nil || !strings.Contains(err.Error(), "since it was read first") {
		t.Errorf("a topic that was made again: %v", err)
	}
}

// early is a reader that ends one message early and says nothing of it.
type early struct{ *memory.Sink }

func (r early) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	span.To--
	return r.Sink.Read(ctx, span, each)
}

func TestABusThatCannotBeRead(t *testing.T) {
	for want, o := range map[string]verify.BusOptions{
		"the reader ended at 2, before 3":                                                  {Topics: []string{"t"}},
		"topic nowhere does not exist":                                                     {Topics: []string{"t", "nowhere"}},
		"no stream takes the subjects nowhere":                                             {Subjects: []string{"nowhere"}},
		"the stream NONE does not exist, so nothing is published there yet: create it, or": {Subjects: []string{"nowhere"}, Stream: "NONE"},
	} {
		s := memory.New(memory.Options{Partitions: 1})
		must.Get(s.Publish(t.Context(), []sink.Message{{Destination: "t"}, {Destination: "t"}}))(t)
		o.Reader = early{s}
		b, err := verify.OpenBus(t.Context(), o)
		if err == nil {
			err = b.Read(t.Context(), func(*verify.Message) error { return nil }, func(_, _ uint64) {})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
