package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"bridge/internal/backoff"
	"bridge/sink"
)

// Handler handles one event. Its context ends when another process of the group takes over: what
// it has not handled by then comes again there. The event is valid until it returns.
type Handler func(ctx context.Context, e Event) error

// Events hands the events of a stream to a Handler, at least once, for the processes of a group.
// Run is called once.
type Events struct {
	bus    Bus
	o      Options
	group  string
	handle Handler
	counts eventCounts
	faults faults

	mu sync.Mutex
	// consumed are by TP. They outlive a change of hands: a TP may come back.
	consumed map[string]*consumed
}

type eventCounts struct{ handled, repeated, foreign, failed, expired atomic.Uint64 }

// EventStats describe what Events has done.
type EventStats struct {
	// Handled counts events that the Handler took, Repeated those of them that it was given as
	// repeats, Failed the errors that it returned.
	Handled, Repeated, Failed uint64
	// Foreign counts messages of others. Expired counts how often the bus had removed messages
	// before they were handed out: a retention that is shorter than an outage of this group.
	Foreign, Expired uint64
}

// NewEvents returns Events. group names the consumer group or the durable consumer: processes with
// the same one share the events, and progress is kept under it by the bus.
func NewEvents(bus Bus, group string, o Options, handle Handler) (*Events, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	switch {
	case group == "":
		return nil, errors.New("client: the group is empty: give it the name under which the bus keeps progress")
	case handle == nil:
		return nil, errors.New("client: there is no Handler")
	}
	return &Events{bus: bus, o: o, group: group, handle: handle, consumed: make(map[string]*consumed)}, nil
}

// Run hands out events until ctx ends; it then returns nil. It retries for ever what may heal, and
// returns an error for a message of the stream that cannot be understood, as of a newer bridge.
func (e *Events) Run(ctx context.Context) error {
	return e.bus.Consume(ctx, Subscription{
		Opening: Opening{Destinations: e.o.Destinations, Logger: e.o.Logger, Fault: func(tp string, err error) { e.faults.fail(tp, err) }},
		Group:   e.group,
		Joined:  e.faults.end,
		Expired: e.expired,
	}, e.each)
}

// Err returns what holds events up at present, nil where nothing does: the bus, or an error of the
// Handler. A fault of the bus that has ended may stay until the next event.
func (e *Events) Err() error { return e.faults.err() }

// Stats returns counts.
func (e *Events) Stats() EventStats {
	c := &e.counts
	return EventStats{
		Handled: c.handled.Load(), Repeated: c.repeated.Load(), Failed: c.failed.Load(), Foreign: c.foreign.Load(), Expired: c.expired.Load(),
	}
}

// consumed is one TP as this process consumes it, by one goroutine at a time.
type consumed struct {
	mu      sync.Mutex
	parser  *parser
	repeats *repeats
}

func (e *Events) tp(name string) *consumed {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.consumed[name]
	if c == nil {
		c = &consumed{parser: newParser(&e.o), repeats: newRepeats(repeatWindow)}
		e.consumed[name] = c
	}
	return c
}

// each hands out one message, again and again until it is handled.
func (e *Events) each(ctx context.Context, tp string, stored *sink.Stored) error {
	c := e.tp(tp)
	// A TP that comes back may meet the end of its former call.
	c.mu.Lock()
	defer c.mu.Unlock()
	whose, err := c.parser.parse(stored)
	if err != nil {
		return fmt.Errorf("read %s at offset %d: %w", tp, stored.Offset, err)
	}
	m := &c.parser.m
	if whose == foreign || stored.Value == nil && stored.Key != nil {
		// The event before a tombstone has said that the entity is deleted.
		e.counts.foreign.Add(1)
		return nil
	}
	event := m.event(e.o.Stream)
	event.Repeat = c.repeats.has(m.id)
	if err := e.retry(ctx, tp, &event); err != nil {
		return err
	}
	c.repeats.add(m.id)
	e.counts.handled.Add(1)
	if event.Repeat {
		e.counts.repeated.Add(1)
	}
	return nil
}

// retry calls the handler until it succeeds. It returns the cause of ctx when that ends first.
func (e *Events) retry(ctx context.Context, tp string, event *Event) error {
	var pause backoff.Backoff
	for failed := false; ; failed = true {
		err := e.handle(ctx, *event)
		if err == nil {
			if failed {
				e.o.Logger.Info("the event is handled", "stream", e.o.Stream, "topic_partition", tp, "event", event.ID)
			}
			e.faults.end()
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e.counts.failed.Add(1)
		err = fmt.Errorf("handle event %s of %s: %w", event.ID, tp, err)
		e.faults.fail(tp, err)
		if !failed {
			e.o.Logger.Warn("an event is tried again, later ones wait", "stream", e.o.Stream, "topic_partition", tp, "error", err)
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

func (e *Events) expired(tp string, err error) {
	e.counts.expired.Add(1)
	e.o.Logger.Warn("the bus has removed events before they were handled", "stream", e.o.Stream, "topic_partition", tp, "error", err)
}
