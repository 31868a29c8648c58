package sinktest

import "sync"

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
