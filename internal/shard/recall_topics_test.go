package shard_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/internal/shard"
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
		if l.been[name] == nil {
			// It is another shard's.
			continue
		}
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
			instantly(t, way+", "+c.name, func(t *testing.T) {
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
			instantly(t, way+", "+c.name+", killed at each step of the recall", func(t *testing.T) {
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
	defer shard.RecallEvents(shard.RecallEvents(7))
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
			instantly(t, fmt.Sprint(name, ", ", n), func(t *testing.T) {
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

var otherKey = checkpoint.Key{Stream: "items", Shard: "others"}

// otherMarks has another shard publish a message of a type to each place, and saves its marks.
func (l *life) otherMarks(t *testing.T, kind string, places ...string) {
	t.Helper()
	marked := checkpoint.State{Saved: time.Now().Truncate(time.Millisecond)}
	for _, place := range places {
		outcome, err := l.bus.Publish(t.Context(), []sink.Message{
			{Destination: place, Key: []byte("y"), Value: []byte("{}"), ID: "other", Type: kind, Stream: otherKey.Stream, Shard: otherKey.Shard},
		})
		if err != nil {
			t.Fatal(err)
		}
		marked.Offsets = append(marked.Offsets, outcome.Offsets...)
	}
	if err := l.store.Save(t.Context(), otherKey, marked); err != nil {
		t.Fatal(err)
	}
}

// runBesideOther is run in a process with another shard, which does not run.
func (l *life) runBesideOther(t *testing.T) (s *shard.Shard, stop func()) {
	t.Helper()
	s = l.shard(t)
	encoder, err := event.NewEncoder(event.Options{Stream: "items", Shard: otherKey.Shard, Kind: event.Capability, Source: "db", Table: "others"})
	if err != nil {
		t.Fatal(err)
	}
	opts := l.opts
	opts.Name, opts.Encoder, opts.Sink, opts.Store = otherKey.Shard, encoder, l.bus, l.store
	bus := l.sink
	if bus == nil {
		bus = l.bus
	}
	if _, err := shard.NewRecalls(t.Context(), bus, l.store, []*shard.Shard{s, shard.New(opts)}); err != nil {
		t.Fatal(err)
	}
	return s, l.runShard(t, s)
}

// The mark of a topic that a shard may publish to is another shard's.
func TestATopicThatOnlyAnotherShardHasAMarkOf(t *testing.T) {
	l := newLife(t)
	l.shared = true
	l.opts.Route = routes["deletes apart"]
	l.begin(t)
	l.otherMarks(t, "", "deleted")
	before := l.copied()
	l.remove("a")
	l.lived(t)
	l.replace("a", "1", "0")
	l.store = before
	s, stop := l.runBesideOther(t)
	eventually(t, "drained", func() bool { return l.position(t) >= l.ids["a"] })
	nominate(t, s, l.everything())
	stop()
	l.threads(t)
}

// pair is a routed life and another shard beside it, which publishes to "deleted" alone unless it is routed as the first one.
type pair struct {
	*life
	other  *life
	routed bool
	shards []*shard.Shard
}

func newPair(t *testing.T, routed bool) *pair {
	p := &pair{life: newRoutedLife(t, routes["deletes apart"]), other: newLife(t), routed: routed}
	p.named = append(p.named, entity("a"), entity("b"))
	p.shared, p.other.shared = true, true
	p.other.bus, p.other.opts.Limits, p.other.opts.Name = p.bus, p.opts.Limits, otherKey.Shard
	return p
}

// begins makes the shards of a new process.
func (p *pair) begins(t *testing.T) {
	t.Helper()
	encoder, err := event.NewEncoder(event.Options{Stream: "items", Shard: otherKey.Shard, Kind: event.Capability, Source: "db", Table: "others"})
	if err != nil {
		t.Fatal(err)
	}
	opts := p.other.opts
	opts.Route = p.opts.Route
	if !p.routed {
		opts.Route = func(*event.Event) string { return "deleted" }
	}
	opts.Encoder, opts.Source, opts.IDs, opts.Sink, opts.Store = encoder, p.other.table, p.other.table, p.bus, p.store
	p.shards = []*shard.Shard{p.shard(t), shard.New(opts)}
	if _, err := shard.NewRecalls(t.Context(), p.bus, p.store, p.shards); err != nil {
		t.Fatal(err)
	}
}

// first runs the first shard, or waits for it where it runs, until all that is true of a and b is told.
func (p *pair) first(t *testing.T, stop func()) func() {
	t.Helper()
	if stop == nil {
		stop = p.runShard(t, p.shards[0])
	}
	eventually(t, "drained", func() bool { return p.position(t) >= max(p.ids["a"], p.ids["b"]) })
	nominate(t, p.shards[0], p.everything())
	return stop
}

// second runs the other shard until it has published x with a value.
func (p *pair) second(t *testing.T, x string) (stop func()) {
	t.Helper()
	id := p.other.table.Replace("x", x, "0", now())
	stop = p.runShard(t, p.shards[1])
	eventually(t, "published", func() bool {
		state, err := p.store.Load(t.Context(), otherKey)
		return err == nil && state.Position.ID >= id
	})
	return stop
}

// secondBehindACopy has both tell all, copies the checkpoint, lets the second shard go on, and puts the copy back.
func (p *pair) secondBehindACopy(t *testing.T) {
	t.Helper()
	p.begins(t)
	p.replace("a", "1", "0")
	p.replace("b", "1", "0")
	one := p.first(t, nil)
	p.second(t, "1")()
	one()
	before := p.copied()
	p.begins(t)
	p.second(t, "2")()
	p.store = before
}

// What a shard publishes while another one has yet to recall is behind its marks as a whole, or not at all.
func TestWhatIsPublishedBeforeAnotherShardHasRecalled(t *testing.T) {
	p := newPair(t, false)
	p.secondBehindACopy(t)

	p.begins(t)
	p.remove("a")
	one := p.first(t, nil)
	two := p.second(t, "3")
	for _, value := range []string{"2", "3"} {
		p.replace("a", value, "0")
		p.first(t, one)
	}
	one()
	two()
	state, err := p.store.Load(t.Context(), otherKey)
	if err != nil || len(state.Offsets) != 1 {
		t.Errorf("the marks of the other shard are %+v, %v", state.Offsets, err)
	}
	p.remove("a")
	p.begins(t)
	p.first(t, nil)()
	p.threads(t)
	said := len(p.everywhere(t))
	p.begins(t)
	p.first(t, nil)()
	if all := p.everywhere(t); len(all) != said {
		t.Errorf("the next start says something: %v", texts(all))
	}
}

// A topic that never settles, because another shard cannot recall, leaves the marks of the other topic where they are, too.
func TestATopicThatNeverSettles(t *testing.T) {
	p := newPair(t, false)
	p.secondBehindACopy(t)
	for _, happen := range []func(){
		func() {}, func() { p.remove("a") }, func() { p.replace("a", "2", "0") }, func() { p.replace("a", "3", "0") },
		func() {}, func() { p.remove("a") }, func() {},
	} {
		happen()
		p.begins(t)
		p.first(t, nil)()
		p.threads(t)
	}
}

// Journals that arrived as a whole are hidden from the next start by the marks of another shard.
func TestJournalsThatTheMarksOfAnotherShardHide(t *testing.T) {
	p := newPair(t, true)
	p.begin(t)
	gated := gatedSink{p.bus, make(chan struct{})}
	p.sink = gated
	s, stop := p.run(t)
	eventually(t, "it runs", func() bool { _, ok := s.Reach(); return ok })
	p.remove("a")
	go func() { _, _ = s.Nominate(t.Context(), p.everything()) }()
	eventually(t, "a journal", func() bool { return len(p.journaled(t)) == 1 })
	p.replace("a", "2", "0")
	eventually(t, "two journals", func() bool { return len(p.journaled(t)) == 2 })
	before, last := p.copied(), p.ids["a"]
	close(gated.gate)
	eventually(t, "saved", func() bool { return p.position(t) == last && len(p.journaled(t)) == 0 })
	stop()
	p.sink = nil
	p.remove("b")
	p.lived(t)

	p.store = before
	p.remove("a")
	p.begins(t)
	p.second(t, "1")()
	p.begins(t)
	p.first(t, nil)()
	p.threads(t)
}

// stuckRecall is a bus of which one place cannot be read for now.
type stuckRecall struct {
	sink.Sink
	place string
}

func (s stuckRecall) Recall(ctx context.Context, marks []sink.Offset, each func(*sink.Message) error) ([]sink.Offset, error) {
	if marks[0].TP == s.place {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return s.Sink.(sink.Recaller).Recall(ctx, marks, each)
}

// A shard waits for no place that it has nothing to do with, and its marks do not either, be there dead letters.
func TestAPlaceOfOthersThatCannotBeRead(t *testing.T) {
	l := newLife(t)
	l.shared = true
	l.opts.DeadLetter = letter
	l.opts.Reaches = func(place string) bool { return place == topic }
	l.begin(t)
	l.otherMarks(t, sink.DeadLetterType, "another", letter)
	l.sink = stuckRecall{l.bus, "another"}
	_, stop := l.runBesideOther(t)
	l.refuseC()
	l.replace("c", "1", "0")
	eventually(t, "put aside", func() bool { return len(l.bus.Messages(letter)) == 2 })
	l.replace("a", "2", "0")
	eventually(t, "published", func() bool { return l.position(t) >= l.ids["a"] })
	stop()
	state, err := l.store.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range state.Offsets {
		if end := len(l.bus.Messages(m.TP)); int(m.Last) != end {
			t.Errorf("the mark of %s is %d, it ends at %d", m.TP, m.Last, end)
		}
	}
	if len(state.Offsets) != 2 {
		t.Errorf("the marks are %+v", state.Offsets)
	}
}
