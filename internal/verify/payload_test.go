package verify_test

import (
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/internal/verify"
)

// TestOtherHeadersThanBefore: HEADERS may change, and messages from before are no less right.
func TestOtherHeadersThanBefore(t *testing.T) {
	w := newWorld(t, event.Release)
	headers := func(h ...event.Field) {
		w.options.Format, w.options.Payload = event.FormatPayload, &event.Payload{Column: "state", Headers: h}
		w.encoder = w.newEncoder()
	}
	name, amount := event.Field{Column: "name", Member: "name"}, event.Field{Column: "amount", Member: "amount"}
	headers(name)
	w.insert("a", "x")
	headers(name, amount)
	w.insert("b", "y")
	sent := w.bus.messages
	// check checks copies of the messages, of which one is changed.
	check := func(at int, change func(*message)) *verify.Report {
		w.bus.messages = nil
		for i, m := range sent {
			one := clone(m)
			if i == at {
				change(one)
			}
			w.bus.messages = append(w.bus.messages, one)
		}
		return w.check()
	}
	want(t, check(-1, nil), " | changed 1")
	for i, found := range []string{"altered 1", "altered 1 | changed 1"} {
		want(t, check(i, func(m *message) { m.Header["name"] = "z" }), found)
		if r := check(i, func(m *message) { m.Header["eiffel-id"] = "a52373da-47bf-56c7-a474-5b93feb9c98d" }); r.Good {
			t.Errorf("message %d has another id, and nothing was found", i)
		}
	}
	for _, now := range [][]event.Field{{amount}, {{Column: "name", Member: "called"}}} {
		headers(now...)
		want(t, check(-1, nil), " | unproven 2")
	}
}
