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
	stop    func()
	mu      sync.Mutex
	waiting []string
}

// quietFor is how long a wait is not worth a line.
const quietFor = 300 * time.Millisecond

// NewProgress returns a progress on w, which is a terminal.
func NewProgress(w io.Writer) *Progress {
	p, begun := &Progress{}, time.Now()
	quit, ended := make(chan struct{}), make(chan struct{})
	p.stop = func() { close(quit); <-ended }
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		line := NewLine(w, true)
		defer line.Stop()
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			if waited := time.Since(begun); waited >= quietFor {
				p.mu.Lock()
				waiting := strings.Join(p.waiting, " and ")
				p.mu.Unlock()
				line.Show(fmt.Sprintf("%c looking at %s (%.0f s)", `|/-\`[n%4], waiting, waited.Seconds()))
			}
		}
	}()
	return p
}

// During returns a function that does something and has it shown meanwhile.
func (p *Progress) During(what string, do func()) func() error {
	return func() error {
		if p != nil {
			p.mu.Lock()
			p.waiting = append(p.waiting, what)
			p.mu.Unlock()
			defer func() {
				p.mu.Lock()
				p.waiting = slices.DeleteFunc(p.waiting, func(w string) bool { return w == what })
				p.mu.Unlock()
			}()
		}
		do()
		return nil
	}
}

// Stop clears the line and waits until nothing more is written.
func (p *Progress) Stop() {
	if p != nil {
		p.stop()
	}
}
