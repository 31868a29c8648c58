package shard

import (
	"errors"
	"sync"
)

// consent is what a person says to a table whose ids are used again. It is safe for concurrent use.
type consent struct {
	mu sync.Mutex
	// wanted says that the shard has stopped until it is given.
	wanted bool
	// given has an element from when it is given until the shard goes on.
	given chan struct{}
}

func newConsent() *consent { return &consent{given: make(chan struct{}, 1)} }

// want notes why the shard has stopped: it wants consent where its ids are used again. What was
// given before is void.
func (c *consent) want(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.given:
	default:
	}
	c.wanted = errors.Is(err, ErrIDsReused)
}

// give gives consent and reports whether it is wanted.
func (c *consent) give() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.wanted {
		return false
	}
	select {
	case c.given <- struct{}{}:
	default:
	}
	return true
}

// granted notes that the shard goes on with what was given.
func (c *consent) granted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = false
}
