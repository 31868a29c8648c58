package sink_test

import (
	"testing"

	"bridge/sink"
)

func TestDedupID(t *testing.T) {
	m := sink.Message{ID: "id", Domain: "acme", Destination: "a.b", State: sink.State{Epoch: 0x19ab3c4d5e6f, Seq: 0x2a1}}
	first := m.DedupID()
	if first != "id/nqZGzjKIo4Q" {
		t.Errorf("repeats are dropped by %q", first)
	}
	m.Again = true
	if got := m.DedupID(); got != first+"/19ab3c4d5e6f.2a1" {
		t.Errorf("repeats of a message that is stored again are dropped by %q", got)
	}
	for _, other := range []sink.Message{
		{ID: "id", Domain: "acme", Destination: "a.c"}, {ID: "id", Domain: "acm", Destination: "ea.b"}, {ID: "id", Domain: "acme2", Destination: "a.b"},
	} {
		if got := other.DedupID(); got == first {
			t.Errorf("%s in %s has the same id", other.Destination, other.Domain)
		}
	}
}
