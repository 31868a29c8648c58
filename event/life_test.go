package event_test

import (
	"bytes"
	"testing"

	"bridge/event"
	"bridge/source"

	"pgregory.net/rapid"
)

// life encodes the events of one entity, each after the one before.
type life struct {
	encoder *event.Encoder
	last    event.Event
}

// lifeRow returns the table of a life with its one row.
func lifeRow(value, deleted any) *table {
	return newTable(
		cell{"id", source.Int, 0, "1"}, cell{"k", source.Text, 0, "the entity"}, cell{"v", source.Text, 0, value}, cell{"deleted", source.Int, 0, deleted},
	).key("k").deleted("deleted")
}

// publish publishes what a row says and fails unless it follows on the event before.
func (l *life) publish(t *testing.T, op event.Op, rows *table, id uint64) event.Event {
	t.Helper()
	row := rows.row(id)
	row.Op, row.Predecessor = op, l.previous(t)
	if err := l.encoder.Bind(&rows.columns); err != nil {
		t.Fatal(err)
	}
	_, ev, err := l.encoder.Append(nil, row)
	return l.follow(t, ev, err)
}

// lose publishes that the row with this id is gone.
func (l *life) lose(t *testing.T, id uint64) event.Event {
	t.Helper()
	_, ev, err := l.encoder.AppendAbsent(nil, event.Absent{Key: l.last.Key, ID: id, Read: readAt, Predecessor: l.previous(t)})
	return l.follow(t, ev, err)
}

// previous is the id of the last event after a round trip through its 16 bytes.
func (l *life) previous(t *testing.T) string {
	t.Helper()
	id, err := event.ParseID(l.last.ID)
	if err != nil {
		t.Fatal(err)
	}
	return event.FormatID(id)
}

func (l *life) follow(t *testing.T, ev event.Event, err error) event.Event {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	links := parse(t, ev.Body).Links
	switch {
	case l.last.ID == "" && len(links) != 0:
		t.Fatalf("the first event has links: %s", ev.Body)
	case l.last.ID != "" && (len(links) != 1 || links[0].Type != "PREVIOUS_VERSION" || links[0].Target != l.last.ID):
		t.Fatalf("links are %v, want one to %s", links, l.last.ID)
	case l.last.ID != "" && !bytes.Equal(ev.Key, l.last.Key):
		t.Fatalf("key %q became %q", l.last.Key, ev.Key)
	}
	l.last = ev
	return ev
}

// Invariant 4: a bus that drops what it has seen must see each fact of a life that repeats itself.
func TestNoTwoFactsOfALifeShareAnID(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rows := lifeRow("A", "0")
		lived := life{encoder: bind(t, options(), rows)}
		seen := map[string]bool{}
		for range rapid.IntRange(1, 30).Draw(r, "length") {
			id := rapid.Uint64Range(1, 2).Draw(r, "row")
			value := rapid.SampledFrom([]any{"A", "B", nil}).Draw(r, "value")
			var ev event.Event
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0:
				ev = lived.publish(t, event.Added, lifeRow(value, "0"), id)
			case 1:
				ev = lived.publish(t, event.Modified, lifeRow(value, nil), id)
			case 2:
				ev = lived.publish(t, "", lifeRow(value, "1"), id)
			default:
				if lived.last.ID == "" {
					continue
				}
				ev = lived.lose(t, id)
			}
			if seen[ev.ID] {
				r.Fatalf("%s has the id of an earlier event", ev.Body)
			}
			seen[ev.ID] = true
		}
	})
}
