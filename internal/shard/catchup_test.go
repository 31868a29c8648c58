package shard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint/store"
	storememory "bridge/checkpoint/store/memory"
	"bridge/event"
	"bridge/tests/testall"
)

// routes are ways in which the events of a shard are spread over topics.
var routes = map[string]func(*event.Event) string{
	"one topic": func(*event.Event) string { return topic },
	"deletes apart": func(e *event.Event) string {
		if strings.Contains(e.Type, "Deleted") {
			return "deleted"
		}
		return topic
	},
	"each type apart": func(e *event.Event) string { return e.Type },
}

var routed = []string{topic, "deleted", "ItemsAddedEvent", "ItemsModifiedEvent", "ItemsDeletedEvent"}

// newRoutedLife is a life with a route.
func newRoutedLife(t *testing.T, route func(*event.Event) string) *life {
	l := newLife(t, plain, 1)
	l.topics, l.opts.Route, l.destinations = nil, route, slices.Concat(routed, []string{deadTopic})
	for _, topic := range routed {
		l.bus.Create(topic)
	}
	l.named = [][]byte{entity("a"), entity("b"), entity("c")}
	return l
}

// everywhere returns what all topics say, one after the other.
func (l *life) everywhere(t *testing.T) (all []said) {
	t.Helper()
	for _, place := range routed {
		all = append(all, l.saidOn(t, place)...)
	}
	return all
}

// saysNothingNew fails the test if the next process publishes something.
func (l *life) saysNothingNew(t *testing.T) {
	t.Helper()
	before := len(l.everywhere(t))
	if l.lived(t); len(l.everywhere(t)) != before {
		t.Errorf("the next start says something: %v", texts(l.everywhere(t)))
	}
}

// last returns what the bus says last of an entity.
func (l *life) last(t *testing.T, name string) (last string) {
	t.Helper()
	for _, one := range l.said(t) {
		if strings.HasSuffix(one.text, " "+name) || strings.Contains(one.text, " "+name+"=") {
			last = one.text
		}
	}
	return last
}

// threads fails the test unless the events of each entity on the topics form one chain, none twice,
// that ends with what is true.
func (l *life) threads(t *testing.T) {
	t.Helper()
	next, count, ids := make(map[string]said), make(map[string]int), make(map[string]bool)
	for _, one := range l.everywhere(t) {
		if ids[one.id] {
			t.Errorf("%s was repeated, and could be read back", one.text)
		}
		ids[one.id] = true
		_, state, _ := strings.Cut(one.text, " ")
		name, _, _ := strings.Cut(state, "=")
		link := name + " " + one.predecessor
		if other, ok := next[link]; ok {
			t.Errorf("%s and %s both follow %q", other.text, one.text, one.predecessor)
		}
		next[link] = one
		count[name]++
	}
	for name, been := range l.been {
		var told []string
		last := ""
		for one, ok := next[name+" "]; ok; one, ok = next[name+" "+one.id] {
			_, last, _ = strings.Cut(one.text, "=")
			if strings.HasPrefix(one.text, "Deleted") {
				last = "-"
			}
			told = append(told, one.text)
		}
		if is := been[len(been)-1]; len(told) != count[name] || last != is && (is != "-" || len(told) > 0) {
			t.Errorf("%s was %v and %d events say %v", name, been, count[name], told)
		}
	}
}

// happened is what happens behind a copy of the store: each step is published by itself, and then
// comes what happens while nothing runs.
type happened struct {
	name  string
	steps []func(l *life)
	then  func(l *life)
}

var behind = []happened{
	{"nothing", nil, func(*life) {}},
	{"nothing, then a change", nil, func(l *life) { l.replace("a", "3", "0") }},
	{"a change", []func(*life){func(l *life) { l.replace("a", "2", "0") }}, func(*life) {}},
	{"a change, then back", []func(*life){func(l *life) { l.replace("a", "2", "0") }}, func(l *life) { l.replace("a", "1", "0") }},
	{"a change in place, then back", []func(*life){func(l *life) { l.update("a", "2", "0", true) }}, func(l *life) { l.update("a", "1", "0", false) }},
	{"two changes, then the first again", []func(*life){
		func(l *life) { l.replace("a", "2", "0") }, func(l *life) { l.replace("a", "3", "0") },
	}, func(l *life) { l.replace("a", "2", "0") }},
	{"an entity that came and goes", []func(*life){func(l *life) { l.replace("c", "1", "0") }}, func(l *life) { l.remove("c") }},
	{"an entity that came and went", []func(*life){func(l *life) { l.replace("c", "1", "0") }, func(l *life) { l.remove("c") }}, func(*life) {}},
	{"an entity that went, then comes back as it was", []func(*life){func(l *life) { l.remove("a") }}, func(l *life) { l.replace("a", "1", "0") }},
	{"an entity that went and came back", []func(*life){func(l *life) { l.remove("a") }, func(l *life) { l.replace("a", "1", "0") }}, func(*life) {}},
	{"an entity that was marked, then is not", []func(*life){func(l *life) { l.replace("a", "1", "1") }}, func(l *life) { l.replace("a", "1", "0") }},
	{"an entity that was marked, then goes", []func(*life){func(l *life) { l.replace("a", "1", "1") }}, func(l *life) { l.remove("a") }},
}

// before has a and b told, lets it happen, and leaves what is kept of the store.
func (h *happened) before(t *testing.T, l *life, kept keep) *life {
	t.Helper()
	l.begin(t)
	copied := copyStore(t, l.store)
	for _, step := range h.steps {
		step(l)
		l.lived(t)
	}
	h.then(l)
	l.lose(kept, copied)
	return l
}

// lose leaves what is kept of the store.
func (b *bench) lose(kept keep, copied store.Store) {
	switch kept {
	case olderCopy:
		b.store = copied
	case noStore:
		b.store = storememory.New()
	}
}

// TestWhatTheStoreLacksIsReadBack restores a copy of the store that lacks what was published since,
// or loses the store. No event comes twice or out of order, and another start finds nothing, with
// one topic or several.
func TestWhatTheStoreLacksIsReadBack(t *testing.T) {
	every := testall.Cases(3, 1)
	for way, route := range routes {
		for number, c := range behind {
			for kept, left := range map[keep]string{olderCopy: "a copy", noStore: "no store"} {
				instantly(t, way+", "+left+" behind "+c.name, func(t *testing.T) {
					l := c.before(t, newRoutedLife(t, route), kept)
					l.lived(t)
					l.threads(t)
					l.saysNothingNew(t)
				})
				if way == "deletes apart" {
					continue
				}
				instantly(t, way+", "+left+" behind "+c.name+", killed at each step of the start", func(t *testing.T) {
					for step, died := (number+int(kept))%every, true; died; step += every {
						l := c.before(t, newRoutedLife(t, route), kept)
						died = l.dies(t, step, 30*time.Millisecond, true)
						l.lived(t)
						l.threads(t)
					}
				})
			}
		}
	}
}

// The digest is in the headers: a value that an event cannot hold is known again, too.
func TestAStateThatTheEventDoesNotTellIsReadBack(t *testing.T) {
	l := newRoutedLife(t, routes["one topic"])
	l.begin(t)
	copied := copyStore(t, l.store)
	// It is null in the event.
	l.replace("a", "\xff", "0")
	l.lived(t)
	l.store = copied
	l.saysNothingNew(t)
	l.update("a", "\xfe", "0", false)
	l.lived(t)
	if all := l.said(t); len(all) != 4 || all[3].predecessor != all[2].id {
		t.Errorf("the bus says %v", all)
	}
}

func TestDeadLettersAreReadBack(t *testing.T) {
	t.Run("as the last event of their entity", func(t *testing.T) {
		l := newRoutedLife(t, routes["one topic"])
		l.opts.DeadLetter = deadTopic
		l.bus.Reject(refuseText(`"name":"c"`))
		l.replace("c", "1", "0")
		l.begin(t)
		l.lose(noStore, nil)
		l.saysNothingNew(t)
		l.bus.Reject(nil)
		l.saysNothingNew(t)
		l.replace("c", "2", "0")
		l.lived(t)
		deadLetters, all := l.deadLetters(t), l.said(t)
		if n := len(all) - 1; len(deadLetters) != 1 || all[n].text != "Modified c=2" || all[n].predecessor != deadLetters[0].Event {
			t.Errorf("%d dead letters, the bus says %v", len(deadLetters), all)
		}
	})
}

// TestAReleaseStreamIsReadBack: rows on the bus are not published again. Rows that it lacks are,
// also below those that it has.
func TestAReleaseStreamIsReadBack(t *testing.T) {
	for _, latest := range []bool{false, true} {
		for kept, left := range map[keep]string{olderCopy: "a copy", noStore: "no store"} {
			instantly(t, fmt.Sprintf("%s, START=latest %t", left, latest), func(t *testing.T) {
				b := newBench(t)
				b.opts.Start.Latest = latest
				b.insert(50)
				_, stop := b.run(t)
				b.saved(t, 50)
				open := b.table.Open("late", old)
				b.insert(49)
				b.saved(t, 100)
				copied := copyStore(t, b.store)
				b.insert(50)
				b.saved(t, 150)
				stop()
				b.lose(kept, copied)
				b.insert(50)
				_, stop = b.run(t)
				b.saved(t, 200)
				b.table.Commit(open)
				eventually(t, "the late row is published", func() bool { return slices.Contains(b.ids(topic), open) })
				b.polls(t, 5)
				stop()
				got, first := b.ids(topic), uint64(1)
				if latest {
					first = 51
				}
				slices.Sort(got)
				expectRun(t, got, first, 200)
			})
		}
	}
}

// TestTheBusLostItsTail (rule 21): what it has lost is published again.
func TestTheBusLostItsTail(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*life)
		last string
	}{
		"and nothing has changed":         {func(*life) {}, "a=2"},
		"and the entity is as it was":     {func(l *life) { l.replace("a", "1", "0") }, "a=1"},
		"and the entity has changed":      {func(l *life) { l.replace("a", "3", "0") }, "a=3"},
		"and the entity is gone":          {func(l *life) { l.remove("a") }, "Deleted a"},
		"and the entity is as it was, in": {func(l *life) { l.update("a", "1", "0", false) }, "a=1"},
	} {
		instantly(t, name, func(t *testing.T) {
			l := newRoutedLife(t, routes["one topic"])
			l.begin(t)
			l.replace("a", "2", "0")
			l.lived(t)
			l.bus.Lose(topic, 1)
			c.then(l)
			l.lived(t)
			if got := l.last(t, "a"); !strings.HasSuffix(got, c.last) {
				t.Errorf("the bus says %v", texts(l.said(t)))
			}
			if got := l.last(t, "b"); got != "Added b=1" {
				t.Errorf("the bus says %q of b, which it has not lost", got)
			}
			l.saysNothingNew(t)
		})
	}
}

// TestWhatHasExpired (rules 22 and 27).
func TestWhatHasExpired(t *testing.T) {
	instantly(t, "is of no account where the store has it", func(t *testing.T) {
		l := newRoutedLife(t, routes["one topic"])
		l.begin(t)
		l.bus.Expire(topic, 2)
		l.saysNothingNew(t)
	})
	for kept, left := range map[keep]string{olderCopy: "a copy", noStore: "no store"} {
		instantly(t, "of a release stream is not published again, with "+left, func(t *testing.T) {
			b := newBench(t)
			b.opts.BatchRows = 10
			b.insert(50)
			_, stop := b.run(t)
			b.saved(t, 50)
			copied := copyStore(t, b.store)
			b.insert(50)
			b.saved(t, 100)
			// The last message says that all before it was published.
			b.insert(1)
			b.saved(t, 101)
			stop()
			b.bus.Expire(topic, 100)
			b.lose(kept, copied)
			b.insert(1)
			_, stop = b.run(t)
			b.saved(t, 102)
			b.polls(t, 5)
			stop()
			expectRun(t, b.ids(topic), 1, 102)
		})
	}
}

// TestAnotherDestination: what the view has counts there, too.
func TestAnotherDestination(t *testing.T) {
	l := newRoutedLife(t, routes["one topic"])
	l.begin(t)
	copied := copyStore(t, l.store)
	l.opts.Route, l.destinations = func(*event.Event) string { return "deleted" }, []string{"deleted"}
	l.saysNothingNew(t)
	l.replace("a", "2", "0")
	l.lived(t)
	if got := texts(l.saidOn(t, "deleted")); !slices.Equal(got, []string{"Modified a=2"}) {
		t.Errorf("it says %v there", got)
	}
	l.store = copied
	l.saysNothingNew(t)
	l.threads(t)
}

// TestABusThatCannotBeReadBack: a release stream goes on from the store, and repeats what was not
// acknowledged.
func TestABusThatCannotBeReadBack(t *testing.T) {
	b := newBench(t)
	b.unread = true
	b.insert(100)
	b.runTo(t, 100)
	b.insert(50)
	killed := *b
	killed.sink, killed.opts.ShutdownTimeout = deafSink{b.bus}, time.Millisecond
	_, stop := killed.run(t)
	eventually(t, "published", func() bool { return b.count(topic) == 150 })
	stop()
	b.runTo(t, 150)
	all := b.bus.Messages(topic)
	if len(all) != 200 {
		t.Fatalf("%d messages, want 150 and 50 again", len(all))
	}
	for i := range 50 {
		if one, again := &all[100+i], &all[150+i]; one.ID != again.ID || string(one.Value) != string(again.Value) || one.State.Epoch == again.State.Epoch {
			t.Errorf("row %d is repeated as another event, or in the same epoch:\n%s\n%s", one.RowID, one.Value, again.Value)
		}
	}
}
