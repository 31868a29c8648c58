package verify_test

import (
	"strings"
	"testing"

	"bridge/event"
	"bridge/internal/verify"
	"bridge/sink"
)

// refuse replaces a message by a dead letter.
func (w *world) refuse(i int, row uint64) {
	m := w.bus.messages[i]
	dead := sink.DeadLetter(sink.Refused{Reason: "too large", Message: sink.Message{
		Stream: "things", Shard: "thing", RowID: row, Key: m.Key, Value: m.Value, ID: m.Header[sink.HeaderID], Type: m.Header[sink.HeaderType],
	}}, "dead", 4096)
	w.bus.messages[i] = &verify.Message{Value: dead.Value, Header: headers(&dead)}
}

func TestDeadLetters(t *testing.T) {
	// Rows of histories: a is 1, 3, 6, 7 in turn, b is 2 and 5, c is 4.
	for _, c := range []struct {
		name     string
		at       int
		row      uint64
		finding  string
		rejected uint64
	}{
		{"an event that others follow is named as what they follow", 2, 3, " | deadLetter 1", 0},
		{"so is the first one", 0, 1, " | deadLetter 1", 0},
		{"the last one leaves the row stale", 7, 7, "stale 1", 1},
		{"the only one leaves the row missing", 3, 4, "missing 1", 1},
		{"a deleted one leaves what no row has", 6, 5, "extra 1", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := histories(t)
			w.refuse(c.at, c.row)
			r := w.check()
			want(t, r, c.finding)
			if r.Streams[0].Rejected != c.rejected || r.DeadLetters != 1 {
				t.Errorf("%d rejected, %d dead letters", r.Streams[0].Rejected, r.DeadLetters)
			}
			if c.rejected > 0 && !strings.Contains(r.Streams[0].Faults[0].Examples[0].What, "a dead letter") {
				t.Errorf("the example says %q", r.Streams[0].Faults[0].Examples[0].What)
			}
		})
	}
	t.Run("sent again, with what followed since, they are in order", func(t *testing.T) {
		w := histories(t)
		sent := *w.bus.messages[7]
		w.refuse(7, 7)
		w.bus.messages = append(w.bus.messages, &sent, &sent)
		want(t, w.check(), "")
	})
	t.Run("an added event may follow on one that was refused", func(t *testing.T) {
		w := newWorld(t, event.Capability)
		id := w.insert("a", "first")
		w.refuse(0, id)
		w.gone["a"] = true // so that the next one is an added event
		w.replace(id, "a", "first")
		want(t, w.check(), " | deadLetter 1")
	})
	t.Run("a link stays broken when no dead letter has its event", func(t *testing.T) {
		w := histories(t)
		w.refuse(4, 5)
		w.bus.cut(5)
		want(t, w.check(), "brokenLink 1 | deadLetter 1")
	})
}
