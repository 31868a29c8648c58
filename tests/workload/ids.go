package workload

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"bridge/internal/backoff"
)

// AutoIncrement leaves the ids to the database.
type AutoIncrement struct{}

func (AutoIncrement) issuer(o Options) (issuer, error) { return &autoIncrement{oneTable{o}}, nil }

type autoIncrement struct{ oneTable }

func (a *autoIncrement) draw(context.Context, draw) (string, []uint64, error) {
	return a.opts.Table, nil, nil
}

// oneTable is what issuers share whose rows all go to one table.
type oneTable struct{ opts Options }

func (o oneTable) tables() []string             { return []string{o.opts.Table} }
func (o oneTable) create(context.Context) error { return nil }
func (o oneTable) start(time.Time)              {}

// Strides are several nodes with a counter each, whose ids interleave, as with
// auto_increment_increment on several primaries. A writer belongs to the node of its number modulo
// Nodes.
type Strides struct {
	// Nodes is how many there are and the stride of each counter. Defaults to 3.
	Nodes int
	// Silence is how long the first node writes nothing at the beginning. Its ids are then the
	// lowest.
	Silence time.Duration
}

func (s Strides) issuer(o Options) (issuer, error) {
	s.Nodes = cmp.Or(s.Nodes, 3)
	if s.Nodes < 0 || s.Silence < 0 {
		return nil, fmt.Errorf("%d nodes, one silent for %s: neither may be negative", s.Nodes, s.Silence)
	}
	return &strides{oneTable: oneTable{o}, Strides: s, next: make([]uint64, s.Nodes)}, nil
}

type strides struct {
	oneTable
	Strides
	began time.Time

	mu   sync.Mutex
	next []uint64
}

func (s *strides) start(at time.Time) { s.began = at }

func (s *strides) draw(ctx context.Context, d draw) (string, []uint64, error) {
	node := d.writer % s.Nodes
	if node == 0 {
		if err := backoff.Pause(ctx, time.Until(s.began.Add(s.Silence))); err != nil {
			return "", nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]uint64, d.rows)
	for i := range ids {
		ids[i] = s.next[node]*uint64(s.Nodes) + uint64(node) + 1
		s.next[node]++
	}
	return s.opts.Table, ids, nil
}

// counters are numbers in a table that are moved by compare-and-set, each draw a transaction of its
// own.
type counters struct {
	opts  Options
	table string
}

func (c counters) create(ctx context.Context, names []string) error {
	if _, err := c.opts.DB.ExecContext(ctx, c.opts.Dialect.createCounters(c.table)); err != nil {
		return fmt.Errorf("create %s: %w", c.table, err)
	}
	for _, name := range names {
		_, err := c.opts.DB.ExecContext(ctx, "INSERT INTO "+c.table+" (name, num) VALUES (?, 0)", name)
		if err != nil && !isDuplicate(err) {
			return fmt.Errorf("make the counter %s: %w", name, err)
		}
	}
	return nil
}

// move adds n to a counter and returns what it was before. On a conflict the second caller retries,
// as number issuers do.
func (c counters) move(ctx context.Context, name string, n uint64) (uint64, error) {
	for {
		var num uint64
		err := c.opts.DB.QueryRowContext(ctx, "SELECT num FROM "+c.table+" WHERE name = ?", name).Scan(&num)
		if err != nil {
			return 0, err
		}
		var result sql.Result
		result, err = c.opts.DB.ExecContext(ctx, "UPDATE "+c.table+" SET num = ? WHERE name = ? AND num = ?", num+n, name, num)
		if err != nil {
			return 0, err
		}
		switch moved, err := result.RowsAffected(); {
		case err != nil:
			return 0, err
		case moved == 1:
			return num, nil
		}
	}
}
