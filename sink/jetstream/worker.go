package jetstream

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bridge/internal/backoff"
	"bridge/sink"
)

// worker is the one way of this process to one stream: every batch for the stream goes through it.
// Its goroutine alone sends.
type worker struct {
	name    string
	options *Options
	conns   *connector
	faults  *faults
	submit  chan *call

	// What follows belongs to the goroutine of serve.

	// calls are under way, in the order of their coming.
	calls []*call
	// suspects are the messages without an answer of the last fenced series, in their order.
	suspects []inFlight
	// doubt: a fence of the last series was shut, and whether by somebody else's message the
	// suspects tell.
	doubt bool
	// replicated: the stream has several replicas, and takes no fences.
	replicated bool
	// token is the next one; tokens are never used twice.
	token uint64
	// ring and env are memory for the series.
	ring []inFlight
	env  *envelope
	pace pace
	// warned: the log says that the stream is not set up well.
	warned bool
	// session is the connection that was used last, nil after a fault.
	session *session
	// ref names the stream as it was when the series began, base is its last sequence then.
	ref  sink.TPRef
	base uint64
}

func newWorker(name string, options *Options, conns *connector, faults *faults) *worker {
	w := &worker{
		name: name, options: options, conns: conns, faults: faults, submit: make(chan *call), ring: make([]inFlight, options.Window), env: newEnvelope(),
	}
	if options.Bucket != "" && options.JetStreamDomain != "" {
		// Buckets of another domain are reached by its API alone.
		w.env.prefix = options.api("")
	}
	return w
}

// serve publishes what is submitted until ctx ends. Calls under way are then simply left; their
// callers see ctx end, too.
func (w *worker) serve(ctx context.Context) {
	for ctx.Err() == nil {
		if len(w.calls) == 0 && !w.await(ctx) {
			return
		}
		s, err := w.conns.get(ctx)
		if err != nil {
			return
		}
		wire, err := s.open(w.options.Window)
		if err != nil {
			// Only a connection that has just gone refuses a subscription.
			continue
		}
		w.attend(ctx, wire)
		wire.close()
	}
}

// await blocks until there is a call.
func (w *worker) await(ctx context.Context) bool {
	select {
	case c := <-w.submit:
		w.calls = append(w.calls, c)
		return true
	case <-ctx.Done():
		return false
	}
}

// attend publishes over one wire until the connection goes or ctx ends.
func (w *worker) attend(ctx context.Context, wire *wire) {
	var pause backoff.Backoff
	for ctx.Err() == nil && wire.alive() {
		if abandoned := w.prune(); len(w.calls) == 0 {
			w.faults.gone(w.name, abandoned)
			return
		}
		former := w.ref
		r, err := w.begin(ctx, wire)
		if err != nil {
			if ctx.Err() == nil && wire.alive() {
				w.session = nil
				w.faults.fail(w.name, w.name, err)
				w.sleep(ctx, wire, pause.Next())
			}
			continue
		}
		w.faults.end(w.name)
		if w.session != wire.session || w.ref != former {
			w.session = wire.session
			w.options.Session(w.name)
		}
		pause.Reset()
		r.fly(ctx)
		r.end()
	}
}

// sleep waits, unless the connection goes.
func (w *worker) sleep(ctx context.Context, wire *wire, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case c := <-w.submit:
			w.calls = append(w.calls, c)
		case <-timer.C:
			return
		case <-wire.gone:
			return
		case <-ctx.Done():
			return
		}
		w.prune()
	}
}

// prune lets go of the calls that are through. It reports whether the caller of one has left
// before.
func (w *worker) prune() (abandoned bool) {
	w.calls = slices.DeleteFunc(w.calls, func(c *call) bool {
		if !c.finished() {
			return false
		}
		left := c.abandoned()
		w.unfault(c, left)
		abandoned = abandoned || left
		return true
	})
	return abandoned
}

// progress notes that a message of c was stored.
func (w *worker) progress(c *call) {
	if c.fault != "" {
		w.unfault(c, false)
		c.pause.Reset()
	}
}

// unfault ends the fault of c, or with abandoned forgets it, unless another call has it.
func (w *worker) unfault(c *call, abandoned bool) {
	if c.fault == "" {
		return
	}
	fault := c.fault
	c.fault = ""
	if !slices.ContainsFunc(w.calls, func(other *call) bool { return other.fault == fault }) {
		w.faults.gone(fault, abandoned)
	}
}

// postpone keeps c back for a while because one of its messages was refused.
func (w *worker) postpone(c *call, index int, err error) {
	subject := c.destination(index)
	if subject == "" {
		return
	}
	if fault := w.name + " " + subject; fault != c.fault {
		w.unfault(c, false)
		c.fault = fault
	}
	c.until = time.Now().Add(c.pause.Next())
	w.faults.fail(w.name, c.fault, fmt.Errorf("publish to %s: %w", subject, err))
}
