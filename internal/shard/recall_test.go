package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/checkpoint"
	checkpointmemory "bridge/checkpoint/memory"
	"bridge/event"
	"bridge/internal/shard"
	"bridge/sink"
)

// copied returns a copy of the checkpoint as it is.
func (b *bench) copied() *checkpointmemory.Store { return b.store.(*checkpointmemory.Store).Copy() }

// lived runs a shard until what the table says of a and b is published, with a reconcile, and stops it.
func (l *life) lived(t *testing.T) {
	t.Helper()
	s, stop := l.run(t)
	eventually(t, "drained", func() bool { return l.position(t) >= max(l.ids["a"], l.ids["b"]) })
	nominate(t, s, l.everything())
	stop()
}

// happened is what happens behind a copy.
type happened struct {
	name  string
	steps []func(l *life)
	then  func(l *life)
}

// copiedBefore has a and b told, copies the checkpoint, lets it happen, and puts the copy back.
func (h *happened) copiedBefore(t *testing.T, l *life) *life {
	t.Helper()
	l.named = [][]byte{entity("a"), entity("b"), entity("c")}
	l.begin(t)
	before := l.copied()
	for _, step := range h.steps {
		step(l)
		l.lived(t)
	}
	h.then(l)
	l.store = before
	return l
}

// behind is what happens behind a copy of the checkpoint, each step published by itself, and then while nothing runs.
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

// begin has a and b told.
func (l *life) begin(t *testing.T) {
	t.Helper()
	l.replace("a", "1", "0")
	l.replace("b", "1", "0")
	l.lived(t)
}

func TestAnOlderCheckpointRecallsWhatTheBusSays(t *testing.T) {
	for _, c := range behind {
		instantly(t, c.name, func(t *testing.T) {
			l := c.copiedBefore(t, newLife(t))
			l.lived(t)
			// What is on the bus is known: nothing comes twice, and another start finds nothing.
			l.agrees(t)
			if ids := l.published(); len(ids) != len(slices.Compact(slices.Sorted(slices.Values(ids)))) {
				t.Errorf("an event came twice: %v", texts(l.said(t)))
			}
			said := len(l.said(t))
			l.lived(t)
			if again := l.said(t)[said:]; len(again) != 0 {
				t.Errorf("the next start says %v", texts(again))
			}
		})
		instantly(t, c.name+", killed at each step of the recall", func(t *testing.T) {
			for step := 0; ; step++ {
				l := c.copiedBefore(t, newLife(t))
				died := l.dies(t, step, 30*time.Millisecond, l.everything)
				l.lived(t)
				l.agrees(t)
				if !died {
					return
				}
			}
		})
	}
}

// published returns the ids of the events on the bus.
func (l *life) published() (ids []string) {
	for _, m := range l.bus.Messages(topic) {
		ids = append(ids, m.ID)
	}
	return ids
}

func TestACopyWithAJournal(t *testing.T) {
	for steps := range 12 {
		instantly(t, fmt.Sprintf("taken at step %d", steps), func(t *testing.T) {
			l := newLife(t)
			l.begin(t)
			l.replace("a", "2", "0")
			l.dies(t, steps, 30*time.Millisecond, nil)
			before := l.copied()
			l.lived(t)
			l.replace("a", "3", "0")
			l.lived(t)
			l.replace("a", "2", "0")
			l.store = before
			said := len(l.said(t))
			l.lived(t)
			l.agrees(t)
			if got, want := texts(l.said(t)[said:]), []string{"Modified a=2"}; !slices.Equal(got, want) {
				t.Errorf("the start from the copy says %v, want %v", got, want)
			}
		})
	}
}

// refuseC has the bus refuse what the table says of c, which goes to the dead letters.
func (l *life) refuseC() {
	l.opts.DeadLetter = letter
	l.bus.Reject(func(m *sink.Message) string {
		if m.Destination == topic && strings.Contains(string(m.Value), `"name":"c"`) {
			return "too large"
		}
		return ""
	})
}

func TestACopyWithAJournalThatDidNotArriveAsAWhole(t *testing.T) {
	for name, c := range map[string]struct {
		// then is what is true of the entity when the copy is put back.
		then func(l *life)
		want []string
	}{
		"nothing has changed":                {func(*life) {}, nil},
		"as in the journal again":            {func(l *life) { l.replace("a", "2", "0") }, []string{"Modified a=2"}},
		"as before the journal":              {func(l *life) { l.replace("a", "1", "0") }, []string{"Modified a=1"}},
		"gone":                               {func(l *life) { l.remove("a") }, []string{"Deleted a"}},
		"what was refused is accepted later": {func(l *life) { l.bus.Reject(nil) }, []string{"Modified c=1"}},
	} {
		instantly(t, name, func(t *testing.T) {
			l := newLife(t)
			l.shared = true
			l.named = [][]byte{entity("a"), entity("b"), entity("c")}
			l.begin(t)
			l.refuseC()
			l.replace("a", "2", "0")
			l.replace("c", "1", "0")
			gated := gatedSink{l.bus, make(chan struct{})}
			l.sink = gated
			_, stop := l.run(t)
			l.mustStayJournaled(t, []uint64{l.ids["a"], l.ids["c"]})
			before := l.copied()
			close(gated.gate)
			eventually(t, "saved", func() bool { return l.position(t) == l.ids["c"] && len(l.journaled(t)) == 0 })
			stop()
			l.sink = nil
			l.replace("a", "3", "0")
			l.lived(t)
			l.store = before
			c.then(l)
			said := len(l.said(t))
			l.lived(t)
			if got := texts(l.said(t)[said:]); !slices.Equal(got, c.want) {
				t.Errorf("the start from the copy says %v, want %v", got, c.want)
			}
		})
	}
}

// lateAck publishes at once and acknowledges when its gate is open.
type lateAck struct {
	sink.Sink
	gate chan struct{}
}

func (s lateAck) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	outcome, err := s.Sink.Publish(ctx, batch)
	<-s.gate
	return outcome, err
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

// Another shard's mark lies behind what a journal has published already.
func TestACopyWithAJournalThatAnotherMarkHides(t *testing.T) {
	for name, c := range map[string]struct {
		journal, then func(*life)
		entity, last  string
	}{
		"changed, then back": {func(l *life) { l.replace("a", "2", "0") }, func(l *life) { l.replace("a", "1", "0") }, "a", "Modified a=1"},
		"new, then gone":     {func(l *life) { l.replace("c", "1", "0") }, func(l *life) { l.remove("c") }, "c", "Deleted c"},
	} {
		instantly(t, name, func(t *testing.T) {
			l := newLife(t)
			l.shared = true
			l.named = [][]byte{entity("a"), entity("b"), entity("c")}
			l.begin(t)
			late := lateAck{l.bus, make(chan struct{})}
			l.sink = late
			c.journal(l)
			id, published := l.highest, len(l.bus.Messages(topic))
			_, stop := l.run(t)
			eventually(t, "on the bus", func() bool { return len(l.bus.Messages(topic)) > published })
			l.mustStayJournaled(t, []uint64{id})
			l.otherMarks(t, "", topic)
			before := l.copied()
			close(late.gate)
			eventually(t, "saved", func() bool { return l.position(t) == id && len(l.journaled(t)) == 0 })
			stop()
			l.sink = nil
			l.replace("b", "2", "0")
			l.lived(t)
			c.then(l)
			l.store = before
			l.lived(t)
			l.lived(t)
			if got := l.last(t, c.entity); got != c.last {
				t.Errorf("the bus says %v", texts(l.said(t)))
			}
		})
	}
}

// The first of two journals did not arrive as a whole, the second did: its state counts from that of the first.
func TestACopyWithTwoJournals(t *testing.T) {
	for step, died := 0, true; died; step++ {
		l := newLife(t)
		l.shared = true
		l.named = [][]byte{entity("a"), entity("b"), entity("c")}
		l.begin(t)
		l.refuseC()
		gated := gatedSink{l.bus, make(chan struct{})}
		l.sink = gated
		// An id that stays a gap has the journals carry parts of the ledger.
		l.replace("x", "2", "0")
		l.remove("x")
		l.replace("a", "2", "0")
		l.replace("c", "1", "0")
		_, stop := l.run(t)
		l.mustStayJournaled(t, []uint64{l.ids["a"], l.ids["c"]})
		l.replace("b", "2", "0")
		eventually(t, "two journals", func() bool { return len(l.journaled(t)) == 2 })
		before := l.copied()
		close(gated.gate)
		eventually(t, "saved", func() bool { return l.position(t) == l.ids["b"] && len(l.journaled(t)) == 0 })
		stop()
		l.sink = nil
		l.bus.Reject(nil)
		l.replace("a", "3", "0")
		l.lived(t)
		l.store = before
		died = l.dies(t, step, 30*time.Millisecond, l.everything)
		l.lived(t)
		for name, want := range map[string]string{"a": "Modified a=3", "b": "Modified b=2", "c": "Modified c=1"} {
			if got := l.last(t, name); got != want {
				t.Fatalf("killed at step %d: the bus says %q of %s, want %q", step, got, name, want)
			}
		}
	}
}

func TestRecall(t *testing.T) {
	older := func(t *testing.T) (*life, *lines) {
		l, log := newLife(t), new(lines)
		l.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
		l.begin(t)
		before := l.copied()
		l.replace("a", "2", "0")
		l.lived(t)
		l.replace("a", "1", "0")
		l.store = before
		return l, log
	}

	instantly(t, "is logged once and has a reconcile run at once", func(t *testing.T) {
		l, log := older(t)
		l.lived(t)
		if log.count("older than the bus") != 1 || log.count("messages=1 entities=1 unreadable=0") != 1 {
			t.Errorf("the log says %s", log.b.String())
		}
		run, err := l.store.LoadRun(t.Context(), key)
		if err != nil || run.Ended.IsZero() || time.Since(run.Ended) < 24*time.Hour {
			t.Errorf("the last reconcile is %+v, %v", run, err)
		}
	})
	instantly(t, "is not needed where the checkpoint is the newest", func(t *testing.T) {
		l, log := older(t)
		l.lived(t)
		recalls := log.count("older than the bus")
		l.replace("a", "4", "0")
		l.dies(t, 4, 50*time.Millisecond, nil)
		l.lived(t)
		if log.count("older than the bus") != recalls {
			t.Errorf("the log says %s", log.b.String())
		}
	})
	instantly(t, "is done without where the bus cannot be read, with a word", func(t *testing.T) {
		l, log := older(t)
		l.bus.Hide(errors.New("grant READ"))
		l.lived(t)
		if log.count("cannot be told") != 1 || log.count("grant READ") != 1 {
			t.Errorf("the log says %s", log.b.String())
		}
		mark := func() sink.Offset {
			state, err := l.store.Load(t.Context(), key)
			if err != nil || len(state.Offsets) != 1 {
				t.Fatalf("%+v, %v", state, err)
			}
			return state.Offsets[0]
		}
		was := mark()
		l.replace("a", "5", "0")
		l.lived(t)
		if now := mark(); now.Last <= was.Last {
			t.Errorf("the mark stays at %d", now.Last)
		}
	})
	instantly(t, "passes over what tells no entity, and over dead letters and other streams", func(t *testing.T) {
		l, log := older(t)
		for _, m := range []sink.Message{
			{ID: "1", Stream: "items", Shard: "items", Type: "ItemsAddedEvent", Value: []byte("no JSON")},
			{ID: "2", Stream: "items", Shard: "items", Type: sink.DeadLetterType, Value: []byte("{}")},
			{ID: "3", Stream: "other", Shard: "items", Type: "ItemsAddedEvent", Value: l.bus.Messages(topic)[0].Value},
		} {
			m.Destination = topic
			if _, err := l.bus.Publish(t.Context(), []sink.Message{m}); err != nil {
				t.Fatal(err)
			}
		}
		said := len(l.bus.Messages(topic))
		l.lived(t)
		if log.count("messages=2 entities=1 unreadable=1") != 1 {
			t.Errorf("the log says %s", log.b.String())
		}
		all := l.bus.Messages(topic)
		if len(all) != said+1 || !strings.Contains(string(all[said].Value), all[2].ID) {
			t.Errorf("the bus goes on with %v", texts(l.said(t)))
		}
	})
	instantly(t, "a state that the event does not tell is published anew where it is another one", func(t *testing.T) {
		l := newLife(t)
		l.begin(t)
		before := l.copied()
		// It is null in the event.
		l.replace("a", "\xff", "0")
		l.lived(t)
		last := l.bus.Messages(topic)[2].ID
		l.store = before
		l.lived(t)
		if all := l.said(t); len(all) != 3 {
			t.Fatalf("the bus says %v, though nothing has changed", texts(all))
		}
		l.update("a", "\xfe", "0", false)
		l.lived(t)
		if all := l.said(t); len(all) != 4 || all[3].predecessor != last {
			t.Errorf("the bus says %v", all)
		}
	})
}

// TestShardsThatShareAnOlderCheckpoint: what one has published before another has recalled hides nothing from that, also after a kill.
func TestShardsThatShareAnOlderCheckpoint(t *testing.T) {
	one, two := newLife(t), newLife(t)
	two.bus, two.store, two.opts.Limits, two.opts.Name = one.bus, one.store, one.opts.Limits, "others"
	one.shared, two.shared = true, true
	newTwo := func() *shard.Shard {
		encoder, err := event.NewEncoder(event.Options{Stream: "items", Shard: "others", Kind: event.Capability, Source: "db", Table: "others"})
		if err != nil {
			t.Fatal(err)
		}
		opts := two.opts
		opts.Encoder, opts.Source, opts.IDs, opts.Sink, opts.Store = encoder, two.table, two.table, one.bus, one.store
		return shard.New(opts)
	}
	// both runs the two shards until two has come to a position, one only if it is not held up.
	both := func(reach uint64, held bool) {
		t.Helper()
		shards := []*shard.Shard{newTwo()}
		if _, err := shard.NewRecalls(t.Context(), one.bus, one.store, shards); err != nil {
			t.Fatal(err)
		}
		s := one.shard(t)
		shards = append(shards, s)
		if _, err := shard.NewRecalls(t.Context(), one.bus, one.store, shards); err != nil {
			t.Fatal(err)
		}
		if held {
			one.table.Fail(-1, errors.New("away"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, s := range shards {
			running.Go(func() { _ = s.Run(ctx) })
		}
		eventually(t, "both are there", func() bool {
			state, err := one.store.Load(t.Context(), otherKey)
			return err == nil && state.Position.ID >= reach && (held || one.position(t) >= one.ids["a"])
		})
		if !held {
			nominate(t, s, one.everything())
		}
		cancel()
		running.Wait()
		one.table.Fail(0, nil)
	}
	one.replace("a", "1", "0")
	both(two.table.Replace("x", "1", "0", now()), false)
	before := one.copied()
	one.replace("a", "2", "0")
	both(two.table.Replace("y", "1", "0", now()), false)
	one.replace("a", "1", "0")
	one.store = before
	// The second recalls and goes on, the first cannot be read.
	both(two.table.Replace("z", "1", "0", now()), true)
	both(two.table.Replace("w", "1", "0", now()), false)
	var told []string
	last := ""
	for i, m := range one.bus.Messages(topic) {
		if said := one.said(t)[i]; m.Shard == "items" {
			if said.predecessor != last {
				t.Errorf("%s follows %q, the event before it is %q", said.text, said.predecessor, last)
			}
			last = m.ID
			told = append(told, said.text)
		}
	}
	if want := []string{"Added a=1", "Modified a=2", "Modified a=1"}; !slices.Equal(told, want) {
		t.Errorf("the bus says %v, want %v", told, want)
	}
}

// Two shards come to share a topic that the file knows of one of them only.
func TestATopicThatAShardIsNewTo(t *testing.T) {
	one, two := newLife(t), newLife(t)
	two.bus, two.store, two.opts.Limits, two.opts.Name = one.bus, one.store, one.opts.Limits, "others"
	one.shared, two.shared = true, true
	log := new(lines)
	one.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	route := "former"
	other := func() *shard.Shard {
		encoder, err := event.NewEncoder(event.Options{Stream: "items", Shard: "others", Kind: event.Capability, Source: "db", Table: "others"})
		if err != nil {
			t.Fatal(err)
		}
		opts, to := two.opts, route
		opts.Route = func(*event.Event) string { return to }
		opts.Encoder, opts.Source, opts.IDs, opts.Sink, opts.Store, opts.Logger = encoder, two.table, two.table, one.bus, one.store, one.opts.Logger
		return shard.New(opts)
	}
	marks := func(key checkpoint.Key, place string) uint64 {
		state, err := one.store.Load(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range state.Offsets {
			if m.TP == place {
				return m.Last
			}
		}
		return 0
	}
	// lived runs both, or the other one only, until what the tables say is published.
	lived := func(id uint64, both bool) {
		t.Helper()
		shards := []*shard.Shard{other(), one.shard(t)}
		if _, err := shard.NewRecalls(t.Context(), one.bus, one.store, shards); err != nil {
			t.Fatal(err)
		}
		if !both {
			shards = shards[:1]
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, s := range shards {
			running.Go(func() { _ = s.Run(ctx) })
		}
		eventually(t, "published and saved", func() bool {
			state, err := one.store.Load(t.Context(), otherKey)
			return err == nil && state.Position.ID >= id && (!both || one.position(t) >= one.ids["a"])
		})
		cancel()
		running.Wait()
	}
	one.replace("a", "1", "0")
	lived(two.table.Replace("x", "1", "0", now()), true)

	// The one has not looked at its topic when the other begins to publish there.
	route = topic
	lived(two.table.Replace("y", "1", "0", now()), false)
	for n := range 3 {
		one.replace("a", fmt.Sprint(n+2), "0")
		lived(two.table.Replace("y", fmt.Sprint(n+2), "0", now()), true)
	}
	if a, b, end := marks(key, topic), marks(otherKey, topic), uint64(len(one.bus.Messages(topic))); max(a, b) != end {
		t.Errorf("the marks of the topic are %d and %d, it ends at %d", a, b, end)
	}
	// Who publishes to a topic has looked at it, whoever has a mark of it.
	if n := log.count("older than the bus"); n != 0 {
		t.Errorf("a checkpoint was older than the bus %d times", n)
	}
}
