package main

import (
	"context"
	"fmt"
	"sync"

	"bridge/client"
	"bridge/examples/internal/stage"
)

// listener is what a config service hears: all of its processes, one after the other. heard and
// last are its own memory of what it has done, which Apollo keeps beside its cache.
type listener struct {
	name   string
	events func() (*client.Events, error)

	mu      sync.Mutex
	heard   map[uint64]bool
	last    map[string]uint64
	repeats int
	wrong   error
}

func newListener(s *stage.Stage, name string) *listener {
	l := &listener{name: name, heard: make(map[uint64]bool), last: make(map[string]uint64)}
	l.events = func() (*client.Events, error) {
		return client.NewEvents(s.Bus, s.Name(name), s.Options("releases"), l.handle)
	}
	return l
}

// run is one process of the service. The bus keeps where it was, under the name of its group.
func (l *listener) run(ctx context.Context) error {
	events, err := l.events()
	if err != nil {
		return err
	}
	return events.Run(ctx)
}

// handle is handleMessage: here a config service drops its cache of the namespace.
func (l *listener) handle(_ context.Context, e client.Event) error {
	var release struct{ Message string }
	if err := e.Decode(&release); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard[e.RowID] {
		// At least once: after a kill of either side the last events may come again.
		l.repeats++
		return nil
	}
	if last := l.last[release.Message]; e.RowID < last && l.wrong == nil {
		l.wrong = fmt.Errorf("%s heard release %d of %s after %d", l.name, e.RowID, release.Message, last)
	}
	l.heard[e.RowID], l.last[release.Message] = true, e.RowID
	return nil
}

func (l *listener) has(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard[id]
}

func (l *listener) result() (heard, repeats int, wrong error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.heard), l.repeats, l.wrong
}
