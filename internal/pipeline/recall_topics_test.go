package pipeline_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/internal/pipeline"
	"bridge/sink"
)

// routes are ways in which the events of a shard are spread over topics.
var routes = map[string]func(*event.Event) string{
	"deletes apart": func(e *event.Event) string {
		if strings.Contains(e.Type, "Deleted") {
			return "deleted"
		}
		return topic
	},
	"each type apart": func(e *event.Event) string { return e.Type },
}

// newRoutedLife is a life with a route, whose checkpoint has marks of all topics.
func newRoutedLife(t *testing.T, route func(*event.Event) string) *life {
	l := newLife(t)
	l.opts.Route = route
	l.named = [][]byte{entity("z")}
	for _, step := range []func(){
		func() { l.replace("z", "1", "0") }, func() { l.replace("z", "2", "0") }, func() { l.remove("z") },
	} {
		step()
		l.lived(t)
	}
	return l
}

// everywhere returns what all topics say, one after the other.
func (l *life) everywhere(t *testing.T) (all []said) {
	t.Helper()
	for _, place := range []string{topic, "deleted", "ItemsAddedEvent", "ItemsModifiedEvent", "ItemsDeletedEvent"} {
		all = append(all, l.saidOn(t, place)...)
	}
	return all
}

// threads fails the test unless the topics tell of each entity one line of events, each of which one at most follows, that ends with what is true.
func (l *life) threads(t *testing.T) {
	t.Helper()
	next, count, ids := make(map[string]said), make(map[string]int), make(map[string]bool)
	for _, one := range l.everywhere(t) {
		if ids[one.id] {
			continue
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

func TestAnOlderCheckpointOfSeveralTopics(t *testing.T) {
	for way, route := range routes {
		for _, c := range behind {
			t.Run(way+", "+c.name, func(t *testing.T) {
				l := c.copiedBefore(t, newRoutedLife(t, route))
				l.lived(t)
				l.threads(t)
				said := len(l.everywhere(t))
				if l.lived(t); len(l.everywhere(t)) != said {
					t.Errorf("the next start says something: %v", texts(l.everywhere(t)))
				}
			})
			if way == "deletes apart" {
				continue
			}
			t.Run(way+", "+c.name+", killed at each step of the recall", func(t *testing.T) {
				for step, died := 0, true; died; step++ {
					l := c.copiedBefore(t, newRoutedLife(t, route))
					died = l.dies(t, step, 30*time.Millisecond, l.everything)
					l.lived(t)
					l.threads(t)
				}
			})
		}
	}
}

// What several topics hold of many entities is read a part of them at a time.
func TestARecallOfSeveralTopicsInParts(t *testing.T) {
	defer pipeline.RecallEvents(pipeline.RecallEvents(7))
	l := newRoutedLife(t, routes["each type apart"])
	l.begin(t)
	before := l.copied()
	names := []string{"a", "b"}
	for i := range 30 {
		names = append(names, fmt.Sprint("n", i))
	}
	l.named = nil
	for _, name := range names {
		l.named = append(l.named, entity(name))
		l.replace(name, "1", "0")
	}
	l.lived(t)
	for i, name := range names {
		l.replace(name, "2", "0")
		if i%2 == 0 {
			l.remove(name)
		}
	}
	l.lived(t)
	for i, name := range names {
		if i%3 == 0 {
			l.replace(name, "2", "0")
		}
	}
	l.store = before
	log := new(lines)
	l.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	l.lived(t)
	l.threads(t)
	if log.count("undecided=0") != 1 {
		t.Errorf("the log says %s", log.b.String())
	}
}

// Between the last events of two topics lies one that cannot be read: none tells which came last.
func TestALastEventThatNoTopicTells(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*life)
		want string
	}{
		"as the one":   {func(*life) {}, "Deleted a"},
		"as the other": {func(l *life) { l.replace("a", "2", "0") }, "Modified a=2"},
		"another":      {func(l *life) { l.replace("a", "4", "0") }, "Modified a=4"},
	} {
		// Topics are read in any order.
		for n := range 8 {
			t.Run(fmt.Sprint(name, ", ", n), func(t *testing.T) {
				l := newRoutedLife(t, routes["deletes apart"])
				l.shared = true
				l.named = append(l.named, entity("a"), entity("b"))
				l.begin(t)
				copied := l.copied()
				l.replace("a", "2", "0")
				if n%2 == 0 {
					l.lived(t)
				} else {
					// The copy has it in a journal, the bus as a whole.
					gated := gatedSink{l.bus, make(chan struct{})}
					l.sink = gated
					_, stop := l.run(t)
					l.mustStayJournaled(t, []uint64{l.ids["a"]})
					copied = l.copied()
					close(gated.gate)
					eventually(t, "saved", func() bool { return len(l.journaled(t)) == 0 })
					stop()
					l.sink = nil
				}
				l.opts.DeadLetter = letter
				l.bus.Reject(func(m *sink.Message) string {
					if strings.Contains(string(m.Value), `"value":"3"`) && m.Destination != letter {
						return "too large"
					}
					return ""
				})
				l.update("a", "3", "0", true)
				l.lived(t)
				l.remove("a")
				l.lived(t)
				if all := l.saidOn(t, "deleted"); all[len(all)-1].text != "Deleted a" || len(l.bus.Messages(letter)) != 1 {
					t.Fatalf("the bus says %v", texts(all))
				}
				l.bus.Reject(nil)
				c.then(l)
				l.store = copied
				before := l.everywhere(t)
				l.lived(t)
				fresh := slices.DeleteFunc(l.everywhere(t), func(one said) bool { return slices.Contains(before, one) })
				if got := texts(fresh); !slices.Equal(got, []string{c.want}) {
					t.Errorf("the start from the copy says %v, want %s", got, c.want)
				}
			})
		}
	}
}

// One topic holds nothing but the journals of the copy, another one what came behind them, too.
func TestACopyWithJournalsForSeveralTopics(t *testing.T) {
	for step, died := 0, true; died; step++ {
		l := newRoutedLife(t, routes["deletes apart"])
		l.shared = true
		l.named = append(l.named, entity("a"), entity("b"))
		l.begin(t)
		gated := gatedSink{l.bus, make(chan struct{})}
		l.sink = gated
		l.replace("a", "2", "0")
		_, stop := l.run(t)
		l.mustStayJournaled(t, []uint64{l.ids["a"]})
		l.replace("a", "2", "1")
		eventually(t, "two journals", func() bool { return len(l.journaled(t)) == 2 })
		before, last := l.copied(), l.ids["a"]
		close(gated.gate)
		eventually(t, "saved", func() bool { return l.position(t) == last && len(l.journaled(t)) == 0 })
		stop()
		l.sink = nil
		l.replace("b", "2", "0")
		l.lived(t)
		l.replace("a", "2", "0")
		l.store = before
		died = l.dies(t, step, 30*time.Millisecond, l.everything)
		l.lived(t)
		l.threads(t)
	}
}

// The mark of a topic that a shard may publish to is another shard's.
func TestATopicThatOnlyAnotherShardHasAMarkOf(t *testing.T) {
	l := newLife(t)
	l.shared = true
	l.opts.Route = routes["deletes apart"]
	l.begin(t)
	outcome, err := l.bus.Publish(t.Context(), []sink.Message{
		{Destination: "deleted", Key: []byte("y"), Value: []byte("{}"), ID: "other", Stream: "items", Shard: "others"},
	})
	if err != nil {
		t.Fatal(err)
	}
	marked := checkpoint.State{Marks: outcome.Marks, Saved: time.Now().Truncate(time.Millisecond)}
	if err := l.store.Save(t.Context(), checkpoint.Key{Stream: "items", Shard: "others"}, marked); err != nil {
		t.Fatal(err)
	}
	before := l.copied()
	l.remove("a")
	l.lived(t)
	l.replace("a", "1", "0")
	l.store = before
	others := l.opts
	others.Name, others.Sink, others.Store = "others", l.bus, l.store
	s := l.shard(t)
	if _, err := pipeline.NewRecalls(t.Context(), l.bus, l.store, []*pipeline.Shard{s, pipeline.New(others)}); err != nil {
		t.Fatal(err)
	}
	stop := l.runShard(t, s)
	eventually(t, "drained", func() bool { return l.position(t) >= l.ids["a"] })
	nominate(t, s, l.everything())
	stop()
	l.threads(t)
}
