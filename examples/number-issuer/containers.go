package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"bridge/client"
	"bridge/examples/internal/stage"
)

// container draws ids for bills and inserts them.
type container struct {
	name   string
	issuer *buffered
	// every is how long it waits between two bills; dies after so many, never if 0.
	every time.Duration
	dies  int
}

func (c *container) run(written *rows) func(context.Context) error {
	return func(ctx context.Context) error {
		for n := 1; stage.Pause(ctx, c.every) == nil; n++ {
			ctx := context.WithoutCancel(ctx)
			id, err := c.issuer.next(ctx)
			if err != nil {
				return err
			}
			if err := insert(ctx, c.issuer.Stage, written, "bill", id, c.name); err != nil {
				return err
			}
			if n == c.dies {
				c.issuer.Say("container %s dies; nobody will ever use ids %d to %d", c.name, c.issuer.buffer[0], c.issuer.buffer[len(c.issuer.buffer)-1])
				return nil
			}
		}
		return nil
	}
}

// left returns how many of the ids in its buffer are at or below position.
func (c *container) left(position uint64) (n int) {
	for _, id := range c.issuer.buffer {
		if id <= position {
			n++
		}
	}
	return n
}

// chat draws a number for each message of a conversation, and inserts it a moment later: messages
// of several senders are committed in another order than that of their numbers.
func chat(s *stage.Stage, conversation string, written *rows) func(context.Context) error {
	return func(ctx context.Context) error {
		issuer := &ordered{s}
		for stage.Pause(ctx, 20*time.Millisecond) == nil {
			ctx := context.WithoutCancel(ctx)
			id, table, err := issuer.next(ctx, conversation)
			if err != nil {
				return err
			}
			if err := stage.Pause(ctx, rand.N(100*time.Millisecond)); err != nil {
				return err
			}
			if err := insert(ctx, s, written, table, id, conversation); err != nil {
				return err
			}
		}
		return nil
	}
}

func insert(ctx context.Context, s *stage.Stage, written *rows, table string, id uint64, container string) error {
	if _, err := s.DB.ExecContext(ctx, "INSERT INTO "+table+" (id, container) VALUES (?, ?)", id, container); err != nil {
		return fmt.Errorf("insert row %d of %s: %w", id, table, err)
	}
	written.add(table, id)
	return nil
}

// rows are ids by table. It is safe for concurrent use.
type rows struct {
	mu      sync.Mutex
	of      map[string]map[uint64]int
	highest map[string]uint64
	// late counts ids that came below a higher one of their table, repeated those that came again.
	late, repeated, all int
}

func newRows() *rows {
	return &rows{of: make(map[string]map[uint64]int), highest: make(map[string]uint64)}
}

func (r *rows) add(table string, id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[table] == nil {
		r.of[table] = make(map[uint64]int)
	}
	if r.of[table][id]++; r.of[table][id] > 1 {
		r.repeated++
		return
	}
	r.all++
	if id < r.highest[table] {
		r.late++
	}
	r.highest[table] = max(r.highest[table], id)
}

// handle is a consumer of both streams.
func (r *rows) handle(_ context.Context, e client.Event) error {
	r.add(e.Shard, e.RowID)
	return nil
}

// lacks returns how many rows of other r does not have, and how many it has beyond those.
func (r *rows) lacks(other *rows) (missing, extra int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	other.mu.Lock()
	defer other.mu.Unlock()
	for table, ids := range other.of {
		for id := range ids {
			if r.of[table][id] == 0 {
				missing++
			}
		}
	}
	return missing, r.all + missing - other.all
}

// upTo returns how many rows of a table have an id of at most position.
func (r *rows) upTo(table string, position uint64) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.of[table] {
		if id <= position {
			n++
		}
	}
	return n
}
