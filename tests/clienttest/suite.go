package clienttest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/client"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// Fixture is a bus with an empty destination of its own.
type Fixture struct {
	Bus client.Bus
	// Sink publishes to the bus.
	Sink sink.Sink
	// Destination is the topic or subject, Reads what consumers read, where that has wildcards.
	Destination, Reads string
	// Restart stops the bus as it can be killed, and starts it. Nil: it cannot be.
	Restart func(t testing.TB)
	// Remake removes the topic or stream with all it holds and makes it again. It returns a sink.
	Remake func(t testing.TB) sink.Sink
	// Purge removes all that the topic or stream holds, where nothing expires. Nil: no consumer
	// can tell that from retention.
	Purge func(t testing.TB)
	// Shares says that processes of a group work side by side.
	Shares bool
}

// Within bounds the waits of these tests, also on a busy machine.
const Within = 4 * time.Minute

// Run tests a bus: side by side, but for what restarts it.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Run("a table goes on behind a restart of the bus", func(t *testing.T) { testRestart(t, open(t)) })
	t.Run("events go on behind a restart of the bus", func(t *testing.T) { testEventsOverARestart(t, open(t)) })
	for name, test := range map[string]func(*testing.T, Fixture){
		"a table is what was published, and follows": testTable, "a table follows a bus that is made again": testRemake,
		"a table follows a bus that is purged":                                   testPurge,
		"each event is handed over, in order, by whichever process of the group": testEvents,
		"events go on where the bus is made again":                               testEventsOfAnotherBus,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func (f *Fixture) options() client.Options {
	reads := f.Reads
	if reads == "" {
		reads = f.Destination
	}
	return client.Options{Stream: Stream, Destinations: []string{reads}, RefreshEvery: 200 * time.Millisecond, KeepFor: 3 * time.Second, Logger: slog.New(slog.DiscardHandler)}
}

func (f *Fixture) group() string { return "group-" + strings.ReplaceAll(f.Destination, ".", "-") }

// Start runs f until the test ends, or the returned function is called, and fails the test for its
// error.
func Start(t testing.TB, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ends with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Handle has a process of a group give events to a handler, as Start says.
func Handle(t testing.TB, b client.Bus, group string, o client.Options, handler client.Handler) (events *client.Events, stop func()) {
	t.Helper()
	events = must.Get(client.NewEvents(b, group, o, handler))(t)
	return events, Start(t, events.Run)
}

func table(t testing.TB, f *Fixture) *client.Table {
	t.Helper()
	table := must.Get(client.NewTable(f.Bus, f.options()))(t)
	Start(t, table.Run)
	return table
}

func ready(t testing.TB, table *client.Table) {
	t.Helper()
	select {
	case <-table.Ready():
	case <-time.After(Within):
		t.Fatalf("it is not ready: %v", table.Err())
	}
}

// Says returns what each entity of a table says.
func Says(table *client.Table) map[string]string {
	all := make(map[string]string)
	for e := range table.All() {
		var data struct{ Says string }
		if err := e.Decode(&data); err != nil {
			data.Says = err.Error()
		}
		all[e.Key] = data.Says
	}
	return all
}

func differs(table *client.Table, want map[string]string) string {
	got := Says(table)
	if maps.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("the table has %d entities, want %d; %+v, %v", len(got), len(want), table.Stats(), table.Err())
}

func testTable(t *testing.T, f Fixture) {
	w := NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(1000, 300)
	table := table(t, &f)
	ready(t, table)
	if wrong := differs(table, w.Table); wrong != "" {
		t.Error(wrong)
	}
	w.Write(500, 400)
	must.Until(t, Within, "what is published arrives", func() any { return differs(table, w.Table) })
	if s := table.Stats(); s.Rebuilds != 0 || s.Foreign != 0 || s.Stateless != 0 {
		t.Errorf("the counts are %+v", s)
	}
}

func testRestart(t *testing.T, f Fixture) {
	if f.Restart == nil {
		return
	}
	w := NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(1000, 300)
	table := table(t, &f)
	ready(t, table)
	for range 2 {
		f.Restart(t)
		w.Write(500, 400)
		must.Until(t, Within, "what is published arrives", func() any { return differs(table, w.Table) })
	}
	if s := table.Stats(); s.Rebuilds != 0 {
		t.Errorf("the counts are %+v", s)
	}
}

func testRemake(t *testing.T, f Fixture) {
	w := NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(500, 200)
	table := table(t, &f)
	ready(t, table)
	watching, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(map[string]string)
	var mu sync.Mutex
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer cancel()
	watcher.Go(func() {
		for c := range table.Watch(watching, true) {
			mu.Lock()
			if delete(seen, c.Key); c.Operation != client.Deleted {
				var data struct{ Says string }
				_ = c.Event.Decode(&data) // an empty text differs
				seen[c.Key] = data.Says
			}
			mu.Unlock()
		}
	})
	f.Sink = f.Remake(t)
	next := NewWriter(t, f.Sink, f.Destination, 2)
	next.Write(400, 100)
	// Of the bus before nothing is left once entities are not kept any more.
	must.Until(t, Within, "what is published arrives", func() any { return differs(table, next.Table) })
	must.Until(t, Within, "what is published arrives", func() any {
		mu.Lock()
		defer mu.Unlock()
		if maps.Equal(seen, next.Table) {
			return ""
		}
		return fmt.Sprintf("the watcher has %d entities, want %d", len(seen), len(next.Table))
	})
	if s := table.Stats(); s.Rebuilds == 0 {
		t.Errorf("the counts are %+v", s)
	}
}

func testPurge(t *testing.T, f Fixture) {
	if f.Purge == nil {
		return
	}
	w := NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(300, 100)
	table := table(t, &f)
	ready(t, table)
	f.Purge(t)
	// bridge does not know what it had published, and begins with what is there.
	next := NewWriter(t, f.Sink, f.Destination, 2)
	next.Write(100, 50)
	must.Until(t, Within, "what is published arrives", func() any { return differs(table, next.Table) })
	if s := table.Stats(); s.Rebuilds == 0 {
		t.Errorf("the counts are %+v", s)
	}
}

type heard struct {
	mu      sync.Mutex
	ids     map[string]int
	last    map[string]uint64
	by      map[int]int
	repeats int
	wrong   []string
}

func newHeard() *heard {
	return &heard{ids: make(map[string]int), last: make(map[string]uint64), by: make(map[int]int)}
}

func (h *heard) handler(process int) client.Handler {
	return func(_ context.Context, e client.Event) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if age := time.Since(e.Published); e.Version != "1.0.0" || e.Operation == client.Unknown || age < -time.Hour || age > time.Hour {
			h.wrong = append(h.wrong, fmt.Sprintf("%s: a %s of version %q, published at %s", e.Key, e.Operation, e.Version, e.Published))
		}
		switch last := h.last[e.Key]; {
		case h.ids[e.ID] > 0:
			h.repeats++
		case e.RowID <= last:
			h.wrong = append(h.wrong, fmt.Sprintf("%s: row %d came behind row %d", e.Key, e.RowID, last))
		default:
			h.last[e.Key] = e.RowID
		}
		h.ids[e.ID]++
		h.by[process]++
		return nil
	}
}

func (h *heard) lacks(ids []string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return h.ids[id] > 0 })
	if len(missing) > 0 {
		return fmt.Sprintf("%d of %d events were not handed over", len(missing), len(ids))
	}
	return ""
}

func (h *heard) check(t testing.TB, most int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	t.Logf("%d events, %d repeats, by process %v", len(h.ids), h.repeats, h.by)
	if len(h.wrong) > 0 {
		t.Error(strings.Join(h.wrong, "\n"))
	}
	if h.repeats > most {
		t.Errorf("%d were repeats, want at most %d", h.repeats, most)
	}
}

func process(t testing.TB, f *Fixture, h *heard, number int) (events *client.Events, stop func()) {
	t.Helper()
	return Handle(t, f.Bus, f.group(), f.options(), h.handler(number))
}

func testEvents(t *testing.T, f Fixture) {
	h, w := newHeard(), NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(200, 50)
	_, first := process(t, &f, h, 1)
	must.Until(t, Within, "events are handed over", func() any { return h.lacks(w.IDs) })
	process(t, &f, h, 2)
	if f.Shares {
		must.Until(t, Within, "what is published arrives", func() any {
			w.Write(50, 50)
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.by[2] == 0 {
				return "the second process gets nothing"
			}
			return ""
		})
	}
	w.Write(200, 50)
	first()
	w.Write(200, 50)
	must.Until(t, Within, "events are handed over", func() any { return h.lacks(w.IDs) })
	process(t, &f, h, 3)
	w.Write(200, 50)
	must.Until(t, Within, "events are handed over", func() any { return h.lacks(w.IDs) })
	// What was in hand when partitions changed hands.
	h.check(t, len(w.IDs)/2)
}

func testEventsOverARestart(t *testing.T, f Fixture) {
	if f.Restart == nil {
		return
	}
	h, w := newHeard(), NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(300, 50)
	events, _ := process(t, &f, h, 1)
	must.Until(t, Within, "events are handed over", func() any { return h.lacks(w.IDs) })
	f.Restart(t)
	// The fault may stay until the next event of the TP, or for a minute.
	waits := time.Now()
	must.Until(t, Within, "what is published arrives", func() any {
		err := events.Err()
		if err == nil {
			return ""
		}
		if time.Since(waits) > 3*time.Second {
			w.Write(20, 50)
			waits = time.Now()
		}
		return err.Error()
	})
	w.Write(300, 50)
	must.Until(t, Within, "events are handed over", func() any { return h.lacks(w.IDs) })
	h.check(t, len(w.IDs)/2)
}

// testEventsOfAnotherBus has all events of the bus that was made again handed over: none of the
// progress on the former one counts.
func testEventsOfAnotherBus(t *testing.T, f Fixture) {
	h, w := newHeard(), NewWriter(t, f.Sink, f.Destination, 1)
	w.Write(50, 50)
	process(t, &f, h, 1)
	must.Until(t, Within, "events are handed over", func() any { return h.lacks(w.IDs) })
	f.Sink = f.Remake(t)
	next := NewWriter(t, f.Sink, f.Destination, 2)
	next.Write(100, 50)
	must.Until(t, Within, "events are handed over", func() any { return h.lacks(next.IDs) })
}
