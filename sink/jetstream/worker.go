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
	return &worker{
		name: name, options: options, conns: conns, faults: faults, submit: make(chan *call), ring: make([]inFlight, options.Window), env: newEnvelope(),
	}
}

// serve publishes what is submitted until ctx ends. Calls under way are then simply left; their
// callers see ctx end, too.
func (l *worker) serve(ctx context.Context) {
	for ctx.Err() == nil {
		if len(l.calls) == 0 && !l.await(ctx) {
			return
		}
		s, err := l.conns.get(ctx)
		if err != nil {
			return
		}
		w, err := s.open(l.options.Window)
		if err != nil {
			// Only a connection that has just gone refuses a subscription.
			continue
		}
		l.attend(ctx, w)
		w.close()
	}
}

// await blocks until there is a call.
func (l *worker) await(ctx context.Context) bool {
	select {
	case c := <-l.submit:
		l.calls = append(l.calls, c)
		return true
	case <-ctx.Done():
		return false
	}
}

// attend publishes over one wire until the connection goes or ctx ends.
func (l *worker) attend(ctx context.Context, w *wire) {
	var pause backoff.Backoff
	for ctx.Err() == nil && w.alive() {
		if l.prune(); len(l.calls) == 0 {
			l.faults.end(l.name)
			return
		}
		former := l.ref
		r, err := l.begin(ctx, w)
		if err != nil {
			if ctx.Err() == nil && w.alive() {
				l.session = nil
				l.faults.fail(l.name, l.name, err)
				l.sleep(ctx, w, pause.Next())
			}
			continue
		}
		l.faults.end(l.name)
		if l.session != w.session || l.ref != former {
			l.session = w.session
			l.options.Session(l.name)
		}
		pause.Reset()
		r.fly(ctx)
		r.end()
	}
}

// sleep waits, unless the connection goes.
func (l *worker) sleep(ctx context.Context, w *wire, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case c := <-l.submit:
			l.calls = append(l.calls, c)
		case <-timer.C:
			return
		case <-w.gone:
			return
		case <-ctx.Done():
			return
		}
		l.prune()
	}
}

// prune lets go of the calls that are through.
func (l *worker) prune() {
	l.calls = slices.DeleteFunc(l.calls, func(c *call) bool {
		if !c.finished() {
			return false
		}
		l.unfault(c)
		return true
	})
}

// progress notes that a message of c was stored.
func (l *worker) progress(c *call) {
	if c.fault != "" {
		l.unfault(c)
		c.pause.Reset()
	}
}

func (l *worker) unfault(c *call) {
	if c.fault == "" {
		return
	}
	fault := c.fault
	c.fault = ""
	if !slices.ContainsFunc(l.calls, func(other *call) bool { return other.fault == fault }) {
		l.faults.end(fault)
	}
}

// block keeps c back for a while because one of its messages was refused.
func (l *worker) block(c *call, index int, err error) {
	subject := c.destination(index)
	if subject == "" {
		return
	}
	if fault := l.name + " " + subject; fault != c.fault {
		l.unfault(c)
		c.fault = fault
	}
	c.until = time.Now().Add(c.pause.Next())
	l.faults.fail(l.name, c.fault, fmt.Errorf("publish to %s: %w", subject, err))
}
