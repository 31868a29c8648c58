package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Progress shows on one line of a terminal what is waited for. A nil *Progress shows nothing.
type Progress struct {
	w     io.Writer
	begun time.Time
	quit  chan struct{}
	ended chan struct{}

	mu      sync.Mutex
	waiting []string
}

// quietFor is how long a wait is not worth a line.
const quietFor = 300 * time.Millisecond

// NewProgress returns a progress on w, which is a terminal.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w, begun: time.Now(), quit: make(chan struct{}), ended: make(chan struct{})}
	go p.run()
	return p
}

// During returns a function that does something and has it shown meanwhile.
func (p *Progress) During(what string, do func()) func() error {
	return func() error {
		p.change(func(waiting []string) []string { return append(waiting, what) })
		defer p.change(func(waiting []string) []string {
			return slices.DeleteFunc(waiting, func(w string) bool { return w == what })
		})
		do()
		return nil
	}
}

func (p *Progress) change(to func([]string) []string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = to(p.waiting)
}

// Stop clears the line and waits until nothing more is written.
func (p *Progress) Stop() {
	if p == nil {
		return
	}
	close(p.quit)
	<-p.ended
}

func (p *Progress) run() {
	defer close(p.ended)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	line := NewLine(p.w, true)
	defer line.Stop()
	for n := 0; ; n++ {
		select {
		case <-p.quit:
			return
		case <-tick.C:
		}
		if waited := time.Since(p.begun); waited >= quietFor {
			p.mu.Lock()
			waiting := strings.Join(p.waiting, " and ")
			p.mu.Unlock()
			line.Show(fmt.Sprintf("%c looking at %s (%.0f s)", `|/-\`[n%4], waiting, waited.Seconds()))
		}
	}
}
