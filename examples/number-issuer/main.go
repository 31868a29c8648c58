// Command number-issuer is a consumer of tables whose ids come from a number issuer: containers
// hold batches of ids and insert rows far out of order, a chat draws each id from a counter, and
// one container dies with half of its batch. No row is lost. See README.md.
//
//	make example-number-issuer
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"sync"

	"example.org/bridge/client"
	"example.org/bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() { stage.Main("number-issuer", files, story) }

// batchSize is how many numbers a batch has. Upstream has 5000.
const batchSize = 100

// issuer hands out batches of numbers. Upstream moves a counter by compare-and-set.
type issuer struct{ next uint64 }

// container holds a batch in memory, so its ids ascend, and interleave with those of others.
type container struct {
	name   string
	buffer []uint64
}

func (c *container) draw(from *issuer) (id uint64) {
	if len(c.buffer) == 0 {
		for range batchSize {
			from.next++
			c.buffer = append(c.buffer, from.next)
		}
	}
	id, c.buffer = c.buffer[0], c.buffer[1:]
	return id
}

type row struct {
	table string
	id    uint64
}

// heard has the rows of both streams that a consumer has heard, and the last one.
type heard struct {
	mu   sync.Mutex
	rows map[row]bool
	last row
}

// handle takes an event. Events come at least once.
func (h *heard) handle(_ context.Context, e client.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = row{e.Shard, e.RowID}
	h.rows[h.last] = true
	return nil
}

func (h *heard) await(ctx context.Context, s *stage.Stage, written []row) error {
	return s.Wait(ctx, fmt.Sprintf("all %d rows", len(written)), func() (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.rows) == len(written) && !slices.ContainsFunc(written, func(r row) bool { return !h.rows[r] }), nil
	})
}

func story(ctx context.Context, s *stage.Stage) error {
	h := &heard{rows: make(map[row]bool)}
	for _, stream := range []string{"bills", "messages"} {
		if err := s.Listen(ctx, stream, s.Options(stream), h.handle); err != nil {
			return err
		}
	}
	var written []row
	insert := func(table string, id uint64, by string) error {
		written = append(written, row{table, id})
		_, err := s.DB.ExecContext(ctx, "INSERT INTO "+table+" (id, container) VALUES (?, ?)", id, by)
		return err
	}
	from := new(issuer)
	bill := func(c *container) error { return insert("bill", c.draw(from), c.name) }

	s.Say("containers a, b and c insert bills with ids from batches of %d; b is slow", batchSize)
	a, b, c := &container{name: "a"}, &container{name: "b"}, &container{name: "c"}
	for n := range uint64(3 * batchSize) {
		err := bill(a)
		if n < batchSize/2 {
			err = errors.Join(err, bill(c))
		}
		if n%10 == 0 {
			err = errors.Join(err, bill(b))
		}
		// Two messages of a chat have the next numbers of a counter, and are committed in the other
		// order.
		if err := errors.Join(err, insert("im_message_0", 2*n+2, "chat"), insert("im_message_0", 2*n+1, "chat")); err != nil {
			return err
		}
	}
	s.Say("container c is dead: nobody will ever use ids %d to %d", c.buffer[0], c.buffer[len(c.buffer)-1])
	if err := h.await(ctx, s, written); err != nil {
		return err
	}
	s.Say("%d rows were heard; container b goes on with id %d, far below the highest one", len(written), b.buffer[0])
	if err := bill(b); err != nil {
		return err
	}
	if err := h.await(ctx, s, written); err != nil {
		return err
	}
	s.Say("all %d rows were heard, none was lost, the last one was %d of %s", len(written), h.last.id, h.last.table)
	return nil
}
