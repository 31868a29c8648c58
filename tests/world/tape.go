package world

import (
	"slices"
	"sync"
	"time"
)

// Tape is what a consumer receives while it happens, each message with the time.
type Tape struct {
	mu       sync.Mutex
	messages []Message
}

func (p *Tape) Add(m Message) {
	m.At = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, m)
}

// All returns the messages so far.
func (p *Tape) All() []Message { return p.From(0) }

// From returns the messages so far but for the first n.
func (p *Tape) From(n int) []Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.messages[n:])
}

func (p *Tape) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.messages)
}
