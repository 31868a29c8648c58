package sinktest

import (
	"bytes"
	"testing"

	"bridge/sink"
)

// judge compares what consumers see with what was sent. Repeats are allowed where repeats is true,
// if they are the same to the byte.
type judge struct {
	fixture Fixture
	repeats bool
	// maybe holds ids that may be missing: messages that were pending.
	maybe map[string]bool
}

// check fails the test unless every destination shows exactly sent, each key in its order.
func (j judge) check(t *testing.T, sent []sink.Message) {
	t.Helper()
	byID := make(map[string]sink.Message, len(sent))
	for _, m := range sent {
		byID[m.ID] = m
	}
	seen := make(map[string]int)
	order := make(map[string][]string)
	for _, d := range j.fixture.Destinations {
		for _, r := range j.fixture.Read(t, d) {
			m, ok := byID[r.ID]
			if !ok || m.Destination != d {
				t.Fatalf("%s shows message %s that was not sent there", d, r.ID)
			}
			j.same(t, m, r)
			if seen[r.ID]++; seen[r.ID] == 1 {
				line := d + "\x00" + string(m.Key)
				order[line] = append(order[line], r.ID)
			}
		}
	}
	j.complete(t, sent, seen)
	j.ordered(t, sent, seen, order)
}

func (j judge) complete(t *testing.T, sent []sink.Message, seen map[string]int) {
	t.Helper()
	missing, repeated := 0, 0
	for _, m := range sent {
		switch n := seen[m.ID]; {
		case n == 0 && !j.maybe[m.ID]:
			missing++
		case n > 1:
			repeated++
		}
	}
	if missing > 0 {
		t.Fatalf("%d of %d messages are missing", missing, len(sent))
	}
	if repeated > 0 && !j.repeats {
		t.Fatalf("%d of %d messages are repeated", repeated, len(sent))
	}
}

// ordered compares the first occurrences of each key with the order of sending. What may be missing
// may be so only at the end of its key: sent again, it would come after what follows it.
func (j judge) ordered(t *testing.T, sent []sink.Message, seen map[string]int, order map[string][]string) {
	t.Helper()
	next := make(map[string]int)
	counted := make(map[string]bool)
	hole := make(map[string]string)
	for _, m := range sent {
		line := m.Destination + "\x00" + string(m.Key)
		if counted[m.ID] {
			continue
		}
		counted[m.ID] = true
		if seen[m.ID] == 0 {
			hole[line] = m.ID
			continue
		}
		if before := hole[line]; before != "" {
			t.Fatalf("key %q on %s: message %s is there, %s before it is not", m.Key, m.Destination, m.ID, before)
		}
		if got := order[line][next[line]]; got != m.ID {
			t.Fatalf("key %q on %s: message %s comes where %s was sent", m.Key, m.Destination, got, m.ID)
		}
		next[line]++
	}
}

// same compares one message with what a consumer sees of it.
func (j judge) same(t *testing.T, m sink.Message, r Record) {
	t.Helper()
	if !bytes.Equal(m.Value, r.Value) {
		t.Fatalf("message %s has another value:\nsent %.200s\nseen %.200s", m.ID, m.Value, r.Value)
	}
	if j.fixture.Features.Keys && !bytes.Equal(m.Key, r.Key) {
		t.Fatalf("message %s has key %q, want %q", m.ID, r.Key, m.Key)
	}
	if !j.fixture.Features.Headers {
		return
	}
	if got := r.Headers[sink.HeaderTraceParent]; got != m.TraceParent {
		t.Fatalf("message %s has header %s %q, want %q", m.ID, sink.HeaderTraceParent, got, m.TraceParent)
	}
	m.EachHeader(func(name, value string) {
		if name == sink.HeaderState {
			checkState(t, &m, r.Headers[name], j.fixture.Features.Keys)
		} else if got, ok := r.Headers[name]; !ok || got != value {
			t.Fatalf("message %s has header %s %q, want %q", m.ID, name, got, value)
		}
	})
}
