package stage

import (
	"context"
	"sync"
)

// Task is a part of the example that goes on in the background, such as a writer.
type Task struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Begin runs f in the background. Its context ends with ctx and by End. An error of f ends the
// example.
func (s *Stage) Begin(ctx context.Context, f func(context.Context) error) *Task {
	ctx, cancel := context.WithCancel(ctx)
	t := &Task{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		if err := f(ctx); err != nil && ctx.Err() == nil {
			s.fail(err)
		}
	}()
	s.atEnd(func(context.Context) error {
		t.End()
		return nil
	})
	return t
}

// End ends the task, as the end of its process would, and waits for it.
func (t *Task) End() {
	t.cancel()
	<-t.done
}

// Wait waits until the task has done its work.
func (t *Task) Wait() { <-t.done }

// Tally counts what happens, by name. It is safe for concurrent use; the zero value is ready.
type Tally struct {
	mu sync.Mutex
	of map[string]int
}

// Add counts n more.
func (t *Tally) Add(name string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = make(map[string]int)
	}
	t.of[name] += n
}

// Of returns a count.
func (t *Tally) Of(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[name]
}
