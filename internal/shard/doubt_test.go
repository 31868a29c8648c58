package shard_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint"
)

// A person may put a shard where it stands, or further, once a kill has left batches of which nobody knows whether they arrived.
func TestWhatWasOnItsWayWhenTheJournalsWereDropped(t *testing.T) {
	update := func(value string) func(*life) {
		return func(l *life) { l.update("a", value, "0", value != "1") }
	}
	replace := func(l *life) { l.replace("a", "1", "0") }
	remove := func(l *life) { l.remove("a") }
	nothing := func(*life) {}
	for _, c := range []struct {
		name         string
		before, then func(*life)
		// last is what the bus says in the end.
		last string
	}{
		{"a change", update("2"), nothing, "Modified a=2"},
		{"a change, then it is undone", update("2"), update("1"), "a=1"},
		{"a change, then another", update("2"), update("3"), "Modified a=3"},
		{"a change, then the entity goes", update("2"), remove, "Deleted a"},
		{"a change, then another row as before", update("2"), replace, "a=1"},
		{"a delete", remove, nothing, "Deleted a"},
		{"a delete, then the entity is back as it was", remove, replace, "a=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for step, died := 0, true; died; step++ {
				l := newLife(t)
				l.shared = true
				l.begin(t)
				c.before(l)
				died = l.dies(t, step, 30*time.Millisecond, l.everything)
				l.put(t, l.position(t))
				c.then(l)
				l.lived(t)
				said := len(l.said(t))
				if !strings.HasSuffix(l.last(t, "a"), c.last) {
					t.Fatalf("killed at step %d: the bus says %v", step, texts(l.said(t)))
				}
				if l.lived(t); len(l.said(t)) > said {
					t.Fatalf("killed at step %d: the next start says %v", step, texts(l.said(t)[said:]))
				}
			}
		})
	}
}

// An id that is on the bus is that of one fact for ever, also where both journals tell of one entity.
func TestTwoJournalsOfAnEntityThatWereDropped(t *testing.T) {
	l := newLife(t)
	l.shared = true
	l.begin(t)
	late := lateAck{l.bus, make(chan struct{})}
	l.sink = late
	s, stop := l.run(t)
	for _, value := range []string{"2", "3"} {
		l.update("a", value, "0", true)
		go func() { _, _ = s.Nominate(t.Context(), l.everything()) }()
		eventually(t, "journaled", func() bool { return len(l.journaled(t)) == int(value[0]-'1') })
	}
	before := l.copied()
	close(late.gate)
	eventually(t, "on the bus", func() bool { return l.last(t, "a") == "Modified a=3" })
	stop()
	l.sink, l.store = nil, before
	l.put(t, l.position(t))
	l.update("a", "2", "0", true)
	l.lived(t)
	ids := l.published()
	if l.last(t, "a") != "Modified a=2" || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Errorf("the bus says %v with the ids %v", texts(l.said(t)), ids)
	}
}

// A delete that both journals lead to is told again as the same event.
func TestADeleteBehindTwoJournalsThatWereDropped(t *testing.T) {
	l := newLife(t)
	l.shared = true
	l.begin(t)
	late := lateAck{l.bus, make(chan struct{})}
	l.sink = late
	s, stop := l.run(t)
	l.replace("a", "2", "0")
	eventually(t, "a journal", func() bool { return len(l.journaled(t)) == 1 })
	l.remove("a")
	go func() { _, _ = s.Nominate(t.Context(), l.everything()) }()
	eventually(t, "two journals", func() bool { return len(l.journaled(t)) == 2 })
	before := l.copied()
	close(late.gate)
	eventually(t, "on the bus", func() bool { return l.last(t, "a") == "Deleted a" })
	stop()
	l.sink, l.store = nil, before
	l.put(t, l.highest)
	l.lived(t)
	deletes := make(map[string]bool)
	for _, one := range l.said(t) {
		if one.text == "Deleted a" {
			deletes[one.id] = true
		}
	}
	if len(deletes) != 1 || l.last(t, "a") != "Deleted a" {
		t.Errorf("the bus says %v", l.said(t))
	}
}

// put does what `bridge checkpoint set` does.
func (l *life) put(t *testing.T, id uint64) {
	t.Helper()
	state, err := l.store.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.DropJournals(t.Context(), l.store, key, state, id, func([16]byte) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if err := l.store.Rewind(t.Context(), key, id); err != nil {
		t.Fatal(err)
	}
	moved := checkpoint.State{ReplaceLedger: true, Saved: time.Now().Truncate(time.Millisecond)}
	moved.Position.ID = id
	if err := l.store.Save(t.Context(), key, moved); err != nil {
		t.Fatal(err)
	}
}
