package sinktest

import (
	"sync"

	"bridge/internal/failpoint"
)

// HangAt has what onStep is given hang at a step, once, until resume is called. onStep sets the
// function that a sink calls at each step. reached is closed when it hangs.
func HangAt(step failpoint.Point, onStep func(hook func(failpoint.Point))) (reached <-chan struct{}, resume func()) {
	at, gate := make(chan struct{}), make(chan struct{})
	var hit sync.Once
	onStep(func(now failpoint.Point) {
		if now == step {
			hit.Do(func() {
				close(at)
				<-gate
			})
		}
	})
	return at, sync.OnceFunc(func() { close(gate) })
}
