package main

import (
	"context"
	"sync"
)

// inquiry asks the source or the bus whether it can be reached. However many probes ask, it is put once at a time, and a probe is answered
// in its time even where nothing comes back.
type inquiry struct {
	put func(context.Context) error

	mu sync.Mutex
	// open is the one that is not answered yet, nil when there is none.
	open *answering
}

// answering is a question that was put.
type answering struct {
	done chan struct{}
	err  error
}

// ask returns the answer to the question that is open, or else to one of its own; the cause of ctx when that ends first.
func (q *inquiry) ask(ctx context.Context) error {
	a := q.current()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *inquiry) current() *answering {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == nil {
		a := &answering{done: make(chan struct{})}
		q.open = a
		// It belongs to all probes that come meanwhile, so it ends by its own time limit; the end of the process waits for none.
		go func() {
			ctx, cancel := context.WithTimeoutCause(context.Background(), readyTimeout, errReadyTimeout)
			defer cancel()
			a.err = q.put(ctx)
			q.mu.Lock()
			q.open = nil
			q.mu.Unlock()
			close(a.done)
		}()
	}
	return q.open
}
