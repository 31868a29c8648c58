package shard_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/sink"
)

// seenEvent is a message with what it says.
type seenEvent struct {
	said
	name, value string
	message     *sink.Message
}

// events returns the events of each entity by their stamps, and the value that each ends with for a
// consumer: within a topic the last one holds, across them that with the highest stamp. It fails
// the test where a topic has them in another order, unless some have come late.
func (l *life) events(t *testing.T) (of map[string][]seenEvent, last map[string]string) {
	t.Helper()
	of, last = make(map[string][]seenEvent), make(map[string]string)
	ends := make(map[string]seenEvent)
	for _, destination := range l.destinations {
		if destination == deadTopic {
			continue
		}
		messages, here := l.bus.Messages(destination), make(map[string]seenEvent)
		for i, one := range l.saidOn(t, destination) {
			e := seenEvent{said: one, message: &messages[i]}
			op, state, _ := strings.Cut(one.text, " ")
			if e.name, e.value, _ = strings.Cut(state, "="); op == "Deleted" {
				e.value = "-"
			}
			if before, ok := here[e.name]; ok && byStamp(before, e) > 0 && !l.late {
				t.Errorf("%s comes behind %s, which was sent later", e.text, before.text)
			}
			here[e.name] = e
			of[e.name] = append(of[e.name], e)
		}
		for name, e := range here {
			if end, ok := ends[name]; !ok || byStamp(end, e) < 0 {
				ends[name] = e
			}
		}
	}
	for name := range of {
		slices.SortStableFunc(of[name], byStamp)
		last[name] = ends[name].value
	}
	return of, last
}

func byStamp(a, b seenEvent) int {
	x, y := &a.message.State, &b.message.State
	return cmp.Or(cmp.Compare(x.Epoch, y.Epoch), cmp.Compare(x.Seq, y.Seq))
}

// agrees fails the test unless the bus tells the life as it was: nothing out of order, nothing
// twice, each event linked to the one before, and in the end what is true. Where messages came late
// the end alone is judged: what was published before they were met did not know of them.
func (l *life) agrees(t *testing.T) {
	t.Helper()
	of, last := l.events(t)
	for name := range l.been {
		if name == l.refused {
			continue
		}
		if !l.late {
			l.ordered(t, name, of[name])
		}
		is := l.value(name)
		if is == "-" && l.removed && l.kept == noStore {
			// Nothing tells any more that there was one.
			continue
		}
		if last[name] != is && (is != "-" || last[name] != "") {
			t.Errorf("%s is %q and the bus says %q", name, is, last[name])
		}
	}
}

// ordered fails the test unless the events of an entity tell it as it was.
func (l *life) ordered(t *testing.T, name string, events []seenEvent) {
	t.Helper()
	var values []string
	known, id := make(map[string]bool), ""
	for _, e := range events {
		if known[e.id] && !l.removed {
			t.Errorf("%s was repeated, and could be read back", e.text)
		}
		known[e.id] = true
		if e.predecessor != id && !l.removed {
			t.Errorf("%s follows %q, the event before it is %q", e.text, e.predecessor, id)
		}
		id = e.id
		values = append(values, e.value)
	}
	if l.removed {
		// Rule 22: what is true is told once more.
		values = slices.Compact(values)
	}
	// Either row is published where nothing is known of the other one: the younger one in the end.
	if !l.doubled[name] && !subsequence(values, l.been[name]) {
		t.Errorf("%s was told as %v and was %v", name, values, l.been[name])
	}
}

// subsequence reports whether the elements of part are in whole, in that order.
func subsequence(part, whole []string) bool {
	for _, element := range part {
		i := slices.Index(whole, element)
		if i < 0 {
			return false
		}
		whole = whole[i+1:]
	}
	return true
}

// explain says what the bus says where the test has failed.
func (l *life) explain(t *testing.T) {
	if !t.Failed() {
		return
	}
	l.late = true
	of, _ := l.events(t)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		for _, e := range of[name] {
			all = append(all, fmt.Sprintf("%s (%s row %d, %d)", e.text, e.message.Shard, e.row, e.message.State.Seq))
		}
	}
	t.Fatalf("on %s, with store %d, it says %v; what was is %v", l.model.name, l.kept, all, l.been)
}
