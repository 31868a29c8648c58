package kafka

import (
	"strings"
	"sync"

	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
)

// faults turns the faults of many workers into few: what concerns the cluster or a topic begins
// with the first worker that meets it and ends with the last.
type faults struct {
	log  *outage.Log
	hook sink.Fault

	mu sync.Mutex
	// scopeOf has who is held up by what, waiting counts them.
	scopeOf map[string]string
	waiting map[string]int
}

// Fail implements [bus.Faults]: who is held up by a fault of scope, and by no other any more.
func (f *faults) Fail(who, scope string, err error) {
	f.hook(scope, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.scopeOf[who] != scope {
		f.end(who, f.log.OK)
		f.scopeOf[who] = scope
		f.waiting[scope]++
	}
	f.log.Fail(scope, err)
}

// OK implements [bus.Faults].
func (f *faults) OK(who string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(who, f.log.OK)
}

// Drop implements [bus.Faults].
func (f *faults) Drop(who string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(who, f.log.Forget)
}

// endAll is ok, or with gaveUp drop, for all whose names begin with prefix.
func (f *faults) endAll(prefix string, gaveUp bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how := f.log.OK
	if gaveUp {
		how = f.log.Forget
	}
	for who := range f.scopeOf {
		if strings.HasPrefix(who, prefix) {
			f.end(who, how)
		}
	}
}

func (f *faults) end(who string, how func(tp string)) {
	scope, held := f.scopeOf[who]
	if !held {
		return
	}
	delete(f.scopeOf, who)
	if f.waiting[scope]--; f.waiting[scope] == 0 {
		delete(f.waiting, scope)
		how(scope)
	}
}
