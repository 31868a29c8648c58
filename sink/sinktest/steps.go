package sinktest

import (
	"context"
	"fmt"
	"sync"

	"bridge/sink"
)

// Publishing publishes in the background. It tells what Publish returns, or how many messages are
// not acknowledged.
func Publishing(ctx context.Context, s sink.Sink, batch []sink.Message) <-chan error {
	done := make(chan error, 1)
	go func() {
		out, err := s.Publish(ctx, batch)
		if err == nil && !out.AllAcked() {
			err = fmt.Errorf("%d of %d acknowledged, rejected %v", out.Acked(), len(batch), out.Rejected)
		}
		done <- err
	}()
	return done
}

// HangAt has what onStep is given hang at a step, once, until resume is called. onStep sets the
// function that a sink calls at each step. reached is closed when it hangs.
func HangAt(step string, onStep func(hook func(string))) (reached <-chan struct{}, resume func()) {
	at, gate := make(chan struct{}), make(chan struct{})
	var hit sync.Once
	onStep(func(now string) {
		if now == step {
			hit.Do(func() {
				close(at)
				<-gate
			})
		}
	})
	return at, sync.OnceFunc(func() { close(gate) })
}
