package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/client"
	"example.org/bridge/sink/sinktest/memory"
)

// handled is what a handler was given.
type handled struct {
	mu  sync.Mutex
	all []string
	// refuse has the handler fail for an event, so often.
	refuse map[string]int
}

func (h *handled) handle(_ context.Context, e client.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var data struct{ Says string }
	if err := e.Decode(&data); err != nil {
		return err
	}
	one := e.Key + "=" + data.Says
	if e.Operation == client.Deleted {
		one = e.Key + " is gone"
	}
	if h.refuse[one] > 0 {
		h.refuse[one]--
		return errors.New("not now")
	}
	if e.Repeat {
		one += " again"
	}
	h.all = append(h.all, one)
	return nil
}

func (h *handled) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.all, ", ")
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(memory.Options{Stream: "events"})
		w := &writer{t: t, bus: b, to: "orders", epoch: 1}
		w.write("a", "1")
		w.write("b", "1")
		foreign := w.message("x", "1")
		foreign.Stream = "others"
		w.publish(foreign)
		h := &handled{refuse: map[string]int{"b=1": 3}}
		events, err := client.NewEvents(b, "group", options("orders"), h.handle)
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, events.Run)
		synctest.Wait()
		w.write("a", "2")
		synctest.Wait()
		if got := h.String(); got != "a=1" || events.Err() == nil || !strings.Contains(events.Err().Error(), "not now") {
			t.Errorf("while an event is refused: %s, %v", got, events.Err())
		}
		pass(t, time.Minute)
		w.write("a", "2")
		w.write("a", "")
		synctest.Wait()
		if got, want := h.String(), "a=1, b=1, a=2, a=2 again, a is gone"; got != want || events.Err() != nil {
			t.Errorf("handed over was %s, want %s; %v", got, want, events.Err())
		}
		if got, want := events.Stats(), (client.EventStats{Handled: 5, Repeated: 1, Failed: 3, Foreign: 1}); got != want {
			t.Errorf("the counts are %+v, want %+v", got, want)
		}
		stop()

		// Another process goes on.
		w.write("c", "1")
		h.all = nil
		next, err := client.NewEvents(b, "group", options("orders"), h.handle)
		if err != nil {
			t.Fatal(err)
		}
		stop = run(t, next.Run)
		synctest.Wait()
		if got := h.String(); got != "c=1" {
			t.Errorf("behind a restart, handed over was %s", got)
		}
		stop()
	})
}

func TestEventsNeedAGroupAndAHandler(t *testing.T) {
	b := newBus(memory.Options{})
	if _, err := client.NewEvents(b, "", options("orders"), (&handled{}).handle); err == nil || !strings.Contains(err.Error(), "group") {
		t.Errorf("without a group: %v", err)
	}
	if _, err := client.NewEvents(b, "group", options("orders"), nil); err == nil || !strings.Contains(err.Error(), "Handler") {
		t.Errorf("without a handler: %v", err)
	}
}

func TestAnEventThatCannotBeReadEndsRun(t *testing.T) {
	b := newBus(memory.Options{})
	w := &writer{t: t, bus: b, to: "orders", epoch: 1}
	m := w.message("a", "1")
	m.ID = "no UUID"
	w.publish(m)
	events, err := client.NewEvents(b, "group", options("orders"), (&handled{}).handle)
	if err != nil {
		t.Fatal(err)
	}
	if err := events.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "orders at offset 1") {
		t.Errorf("Run returns %v", err)
	}
}
