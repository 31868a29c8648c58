package workload

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"bridge/internal/backoff"
)

// AutoIncrement leaves the ids to the database.
type AutoIncrement struct{}

func (AutoIncrement) issuer(o Options) issuer { return &autoIncrement{oneTable{o}} }

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

func (s Strides) issuer(o Options) issuer {
	s.Nodes = cmp.Or(s.Nodes, 3)
	return &strides{oneTable: oneTable{o}, Strides: s, next: make([]uint64, s.Nodes)}
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

// Segments is the buffered number issuer: each container holds a block of ids in memory and uses it
// up at its own pace, so that low ids are written long after higher ones. A writer asks any
// container; the first one twice as often as the second, three times as often as the third, and so
// on.
type Segments struct {
	// Containers is how many there are. Defaults to 3.
	Containers int
	// Block is how many ids a container fetches at once, when a tenth of them is left. Defaults to
	// 5,000.
	Block int
}

func (s Segments) issuer(o Options) issuer {
	s.Containers, s.Block = cmp.Or(s.Containers, 3), cmp.Or(s.Block, 5000)
	return &segments{
		oneTable: oneTable{o}, Segments: s, containers: make([]container, s.Containers),
		blocks: counters{opts: o, table: o.Table + "_segments"},
	}
}

type segments struct {
	oneTable
	Segments
	containers []container
	blocks     counters
}

// container is the memory of one container.
type container struct {
	mu  sync.Mutex
	ids []uint64
}

func (s *segments) create(ctx context.Context) error {
	return s.blocks.create(ctx, []string{s.opts.Table})
}

func (s *segments) draw(ctx context.Context, d draw) (string, []uint64, error) {
	c := &s.containers[s.choose(d.rng)]
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.ids) < max(d.rows, s.Block/10) {
		block, err := s.blocks.move(ctx, s.opts.Table, 1)
		if err != nil {
			return "", nil, err
		}
		for i := range uint64(s.Block) {
			c.ids = append(c.ids, block*uint64(s.Block)+i+1)
		}
	}
	ids := slices.Clone(c.ids[:d.rows])
	c.ids = c.ids[d.rows:]
	return s.opts.Table, ids, nil
}

func (s *segments) choose(rng *rand.Rand) int {
	sum := 0.0
	for i := range s.Containers {
		sum += 1 / float64(i+1)
	}
	at := rng.Float64() * sum
	for i := range s.Containers {
		if at -= 1 / float64(i+1); at < 0 {
			return i
		}
	}
	return s.Containers - 1
}

// Ordered is the strictly ordered number issuer: every id is drawn by a compare-and-set in the
// database, from a counter for each of 64 tables, Table_0 to Table_63. Ids are drawn in order and
// committed out of order.
type Ordered struct{}

func (Ordered) issuer(o Options) issuer {
	s := &ordered{counters: counters{opts: o, table: o.Table + "_counters"}}
	for i := range 64 {
		s.names = append(s.names, fmt.Sprintf("%s_%d", o.Table, i))
	}
	return s
}

type ordered struct {
	names    []string
	counters counters
}

func (s *ordered) tables() []string { return s.names }

func (s *ordered) create(ctx context.Context) error { return s.counters.create(ctx, s.names) }

func (s *ordered) start(time.Time) {}

func (s *ordered) draw(ctx context.Context, d draw) (string, []uint64, error) {
	table := cmp.Or(d.table, s.names[d.rng.IntN(len(s.names))])
	first, err := s.counters.move(ctx, table, uint64(d.rows))
	if err != nil {
		return "", nil, err
	}
	ids := make([]uint64, d.rows)
	for i := range ids {
		ids[i] = first + uint64(i) + 1
	}
	return table, ids, nil
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
