package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/client"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/must"
)

// inTime runs a test in synctest's time with a table on a bus, after it is ready.
func inTime(t *testing.T, o memory.Options, before func(w *writer), test func(t *testing.T, b *memoryBus, w *writer, table *client.Table)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(o)
		w := newWriter(t, b, "orders", 1)
		b.Create("orders")
		before(w)
		table := must.Get(client.NewTable(b, options("orders")))(t)
		stop := clienttest.Start(t, table.Run)
		<-table.Ready()
		test(t, b, w, table)
		stop()
	})
}

func twice(w *writer) {
	w.write("a", "1")
	w.write("b", "1")
	w.write("a", "2")
}

func TestTable(t *testing.T) {
	for name, o := range map[string]memory.Options{"on Kafka": {Partitions: 3}, "on JetStream": {Stream: "events"}} {
		t.Run(name, func(t *testing.T) {
			inTime(t, o, twice, func(t *testing.T, b *memoryBus, w *writer, table *client.Table) {
				holds := func(when, want string) {
					t.Helper()
					synctest.Wait()
					if got := contents(table); got != want || table.Len() != strings.Count(want, "=") {
						t.Errorf("%s: the table has %d: %q, want %q", when, table.Len(), got, want)
					}
				}
				holds("it is ready with all that was there", "a=2 b=1")
				w.write("c", "1")
				w.write("b", "")
				holds("it follows", "a=2 c=1")
				foreign := w.message("x", "1")
				foreign.Stream = "others"
				w.Publish(foreign)
				foreign.Stream, foreign.Domain = "orders", "elsewhere"
				w.Publish(foreign)
				dead := w.message("x", "1")
				dead.Type = sink.DeadLetterType
				w.Publish(dead)
				holds("messages of others are passed over", "a=2 c=1")
				w.write("a", "2")
				holds("a repeat changes nothing", "a=2 c=1")
				want := client.Stats{Entities: 2, Deletions: table.Stats().Deletions, Applied: 5, Repeated: 1, Foreign: 3}
				if got := table.Stats(); got != want || table.Err() != nil {
					t.Errorf("the counts are %+v, %v, want %+v", got, table.Err(), want)
				}
			})
		})
	}
}

// TestHeadersOfFormerVersions: they say the type and the time.
func TestHeadersOfFormerVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(memory.Options{})
		w := newWriter(t, b, "orders", 1)
		w.write("a", "1")
		table := readChanged(t, b, func(m *sink.Stored) {
			set(m, sink.HeaderVersion, "")
			for name, value := range map[string]string{
				sink.HeaderContentType: sink.ContentType, sink.HeaderType: "OrderAddedEvent", sink.HeaderVersion: "0.9.0", sink.HeaderPublishedAt: "2026-03-01T00:00:01.500Z",
			} {
				m.Headers = append(m.Headers, sink.Header{Name: name, Value: []byte(value)})
			}
		})
		e, _ := table.Get("a")
		if e.Type != "OrderAddedEvent" || e.Version != "0.9.0" || e.Operation != client.Added || e.Published.UnixMilli() != 1772323201500 {
			t.Errorf("the event is %+v", e)
		}
	})
}

func TestWatch(t *testing.T) {
	inTime(t, memory.Options{Stream: "events"}, twice, func(t *testing.T, b *memoryBus, w *writer, table *client.Table) {
		changes := make(chan string)
		watch := func(ctx context.Context, present bool) func() string {
			go func() {
				for c := range table.Watch(ctx, present) {
					changes <- fmt.Sprint(c.Key, " ", c.Operation)
				}
			}()
			synctest.Wait()
			return func() string { return <-changes }
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next := watch(ctx, false)
		w.write("c", "1")
		synctest.Wait()
		w.write("c", "2")
		synctest.Wait()
		w.write("a", "")
		w.write("a", "3")
		w.write("d", "1")
		w.write("d", "")
		w.write("b", "")
		synctest.Wait()
		// The first one was taken at once, what followed when nobody took it is changes once.
		var got []string
		for range 4 {
			got = append(got, next())
		}
		if want := "c added, c modified, a modified, b deleted"; strings.Join(got, ", ") != want {
			t.Errorf("changes was %q, want %q", got, want)
		}
		synctest.Wait()
		select {
		case more := <-changes:
			t.Errorf("changes was %s, too", more)
		default:
		}
		again, end := context.WithCancel(t.Context())
		defer end()
		next = watch(again, true)
		if one, other := next(), next(); one != "a added" && other != "a added" || one != "c added" && other != "c added" {
			t.Errorf("changes was %s, %s", one, other)
		}
	})
}

// TestABusThatIsMadeAgain has a table start over, serve what it has until the new bus says
// otherwise, and then drop what the bus does not have.
func TestABusThatIsMadeAgain(t *testing.T) {
	for name, again := range map[string]func(b *memoryBus){
		"made again":            func(b *memoryBus) { b.Wipe() },
		"back to an older time": func(b *memoryBus) { b.Lose("orders/0", 2); b.Lose("orders/1", 2); b.Lose("orders/2", 2) },
	} {
		t.Run(name, func(t *testing.T) {
			before := func(w *writer) { twice(w); w.write("returns", "1") }
			inTime(t, memory.Options{Partitions: 3}, before, func(t *testing.T, b *memoryBus, w *writer, table *client.Table) {
				synctest.Wait()
				again(b)
				b.Create("orders")
				pass(t, 3*time.Second)
				if got := contents(table); got != "a=2 b=1 returns=1" {
					t.Errorf("before bridge has published again the table has %q", got)
				}
				next := newWriter(t, b, "orders", 2)
				next.write("a", "3")
				next.write("c", "1")
				next.write("returns", "1")
				pass(t, 3*time.Second)
				if got := contents(table); got != "a=3 b=1 c=1 returns=1" {
					t.Errorf("while entities are kept the table has %q", got)
				}
				pass(t, 2*time.Minute)
				if got := contents(table); got != "a=3 c=1 returns=1" {
					t.Errorf("at the end the table has %q", got)
				}
				if table.Stats().Rebuilds == 0 {
					t.Error("it was not made again")
				}
			})
		})
	}
}

// TestABusThatIsMadeAgainHasMessages: it says that an entity is gone and that others are as they
// were or have changed, before the table has caught up there.
func TestABusThatIsMadeAgainHasMessages(t *testing.T) {
	before := func(w *writer) { twice(w); w.write("c", "1") }
	inTime(t, memory.Options{Stream: "events"}, before, func(t *testing.T, b *memoryBus, w *writer, table *client.Table) {
		synctest.Wait()
		b.Wipe()
		next := newWriter(t, b, "orders", 2)
		next.write("b", "2")
		next.write("b", "")
		next.write("a", "2")
		next.write("c", "2")
		for _, wait := range []time.Duration{3 * time.Second, 2 * time.Minute} {
			pass(t, wait)
			if got := contents(table); got != "a=2 c=2" {
				t.Errorf("after %s more the table has %q", wait, got)
			}
		}
	})
}

func TestPartitionsThatAreMadeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(memory.Options{})
		table := must.Get(client.NewTable(b, options("orders", "more")))(t)
		stop := clienttest.Start(t, table.Run)
		pass(t, time.Minute)
		select {
		case <-table.Ready():
			t.Error("it is ready without a topic")
		default:
		}
		if err := table.Err(); err == nil || !strings.Contains(err.Error(), "orders") {
			t.Errorf("without a topic it says %v", err)
		}
		w := newWriter(t, b, "orders", 1)
		w.write("a", "1")
		<-table.Ready()
		w.Destination = "more"
		w.write("a", "2")
		w.write("b", "1")
		pass(t, 2*time.Second)
		if got := contents(table); got != "a=2 b=1" || table.Err() != nil {
			t.Errorf("the table has %q, %v", got, table.Err())
		}
		stop()
	})
}

func TestWhatATableCannotRead(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sink.Stored)
		want   error
		text   string
	}{
		"a newer form": {func(m *sink.Stored) { set(m, sink.HeaderState, "2 1 1") }, sink.ErrNewerForm, "orders at offset 1"},
		"a bad state":  {func(m *sink.Stored) { set(m, sink.HeaderState, "nonsense") }, nil, sink.HeaderState},
		"a bad row":    {func(m *sink.Stored) { set(m, sink.HeaderRowID, "x") }, nil, sink.HeaderRowID},
		"a bad id":     {func(m *sink.Stored) { set(m, sink.HeaderID, "x") }, nil, sink.HeaderID},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBus(memory.Options{})
			w := newWriter(t, b, "orders", 1)
			w.write("a", "1")
			table := must.Get(client.NewTable(changing{b, c.change}, options("orders")))(t)
			err := table.Run(t.Context())
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("Run returns %v", err)
			}
		})
	}
	t.Run("a message without a state is counted and passed over", func(t *testing.T) {
		b := newBus(memory.Options{})
		w := newWriter(t, b, "orders", 1)
		w.write("a", "1")
		table := readChanged(t, b, func(m *sink.Stored) { set(m, sink.HeaderState, ""); set(m, sink.HeaderDomain, "") })
		if s := table.Stats(); s.Stateless != 1 || s.Entities != 0 || s.Foreign != 0 {
			t.Errorf("the counts are %+v", s)
		}
	})
	t.Run("a tombstone deletes, with its headers or without", func(t *testing.T) {
		for _, bare := range []bool{false, true} {
			b := newBus(memory.Options{})
			w := newWriter(t, b, "orders", 1)
			w.write("a", "1")
			w.write("b", "1")
			null := w.message("a", "1")
			null.Value = nil
			w.Publish(null)
			table := readChanged(t, b, func(m *sink.Stored) {
				if m.Value == nil && bare {
					m.Headers = nil
				}
			})
			if got := contents(table); got != "b=1" {
				t.Errorf("without headers %v: the table has %q", bare, got)
			}
		}
	})
}

// readChanged returns a table that is ready, with what w has published as change makes it.
func readChanged(t *testing.T, b *memoryBus, change func(*sink.Stored)) *client.Table {
	t.Helper()
	table := must.Get(client.NewTable(changing{b, change}, options("orders")))(t)
	clienttest.Start(t, table.Run)
	<-table.Ready()
	return table
}

// changing is a bus whose messages are changed as they are read.
type changing struct {
	*memoryBus
	change func(*sink.Stored)
}

func (b changing) Open(client.Opening) (client.Reader, error) { return reader{changed(b)}, nil }

type changed changing

func (b changed) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	return b.memoryBus.Read(ctx, span, func(m *sink.Stored) error {
		b.change(m)
		return each(m)
	})
}

// set sets a header; "" removes it.
func set(m *sink.Stored, name, value string) {
	var kept []sink.Header
	for _, h := range m.Headers {
		if h.Name != name {
			kept = append(kept, h)
		} else if value != "" {
			kept = append(kept, sink.Header{Name: name, Value: []byte(value)})
		}
	}
	m.Headers = kept
}

func TestOptionsOfATable(t *testing.T) {
	for _, c := range []struct {
		o    client.Options
		want string
	}{
		{client.Options{Destinations: []string{"orders"}}, "Stream"},
		{client.Options{Stream: "orders"}, "Destinations"},
		{client.Options{Stream: "orders", Destinations: []string{"orders"}, KeepFor: -1}, "KeepFor"},
	} {
		if _, err := client.NewTable(newBus(memory.Options{}), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v gives %v", c.o, err)
		}
	}
}
