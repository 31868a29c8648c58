package workload

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"example.org/bridge/client/backoff"
)

// Dialect is the SQL of the database.
type Dialect int

const (
	MySQL Dialect = iota
	SQLite
)

// Options describe a workload of rows, in the table orders.
type Options struct {
	// DB is the application's pool, which should keep an idle connection for each writer.
	DB      *sql.DB
	Dialect Dialect
	// IDs is where ids come from. Defaults to AutoIncrement.
	IDs IDs
	// Writers is how many transactions are open at the same time, at most. Defaults to 1.
	Writers int
	// Commits is how many transactions to commit; 0 goes on until the context ends.
	Commits int
	// Rate is how many transactions are begun in a second, at most; 0 is no limit.
	Rate float64
	// Seed determines what each writer does. It is part of entities and tokens.
	Seed uint64
	// Hold is how long transactions stay open.
	Hold Hold
	// Mix is what transactions do. The zero value inserts one row each.
	Mix Mix
}

// Hold is how long a transaction stays open behind its last statement: uniformly from 0 up to
// Short, or up to Long for a share of them, 0 to 1.
type Hold struct {
	Short, Long time.Duration
	LongShare   float64
}

// Mix holds the shares of transactions, together at most 1; the rest inserts one row and commits.
type Mix struct {
	// Rollback inserts one row and rolls back.
	Rollback float64
	// Burn runs an INSERT that fails with a duplicate key, which uses up an id.
	Burn float64
	// MultiRow is an INSERT of several rows, InsertSelect an INSERT … SELECT of several.
	MultiRow, InsertSelect float64
	// Replace is a REPLACE over an earlier row of the writer, Delete a DELETE of one.
	Replace, Delete float64
}

// choose draws what a transaction does.
func (m Mix) choose(rng *rand.Rand) kind {
	which := rng.Float64()
	for _, share := range []struct {
		kind kind
		of   float64
	}{{rollback, m.Rollback}, {burn, m.Burn}, {multiRow, m.MultiRow}, {insertSelect, m.InsertSelect}, {replace, m.Replace}, {remove, m.Delete}} {
		if which -= share.of; which < 0 {
			return share.kind
		}
	}
	return insert
}

// choose draws how long a transaction stays open.
func (h Hold) choose(rng *rand.Rand) time.Duration {
	bound := h.Short
	if rng.Float64() < h.LongShare {
		bound = h.Long
	}
	return time.Duration(rng.Float64() * float64(bound))
}

// IDs is where ids come from: AutoIncrement, Spread, Strides, Segments or Ordered.
type IDs interface {
	// tables returns where rows go.
	tables() []string
	// start returns what draws ids, for one caller at a time.
	start() drawer
}

// drawer returns the table and the ids of new rows; nil leaves the ids to the database.
type drawer func(d draw) (table string, ids []uint64)

// draw is a request for ids.
type draw struct {
	writer int
	rng    *rand.Rand
	// table is where the rows must go; empty where it does not matter.
	table string
	rows  int
}

// orders is the table of rows.
const orders = "orders"

// AutoIncrement leaves the ids to the database.
type AutoIncrement struct{}

func (AutoIncrement) tables() []string { return []string{orders} }

func (AutoIncrement) start() drawer { return func(draw) (string, []uint64) { return orders, nil } }

// Spread is AutoIncrement of so many tables, orders_0 and on.
type Spread int

func (s Spread) tables() []string { return numbered(int(s)) }

func (s Spread) start() drawer {
	names := s.tables()
	return func(d draw) (string, []uint64) { return cmp.Or(d.table, names[d.rng.IntN(len(names))]), nil }
}

// numbered returns the names of n tables.
func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s_%d", orders, i))
	}
	return names
}

// Strides are several nodes with a counter each, whose ids interleave, as with
// auto_increment_increment on several primaries. A writer belongs to the node of its number modulo
// Nodes.
type Strides struct {
	// Nodes is how many there are and the stride of each counter.
	Nodes int
	// Silence is how long the first node writes nothing at the beginning. Its ids are then the
	// lowest.
	Silence time.Duration
}

func (s Strides) tables() []string { return []string{orders} }

func (s Strides) start() drawer {
	next := make([]uint64, s.Nodes)
	return func(d draw) (string, []uint64) {
		node := d.writer % s.Nodes
		ids := make([]uint64, d.rows)
		for i := range ids {
			ids[i] = next[node]*uint64(s.Nodes) + uint64(node) + 1
			next[node]++
		}
		return orders, ids
	}
}

// silent waits for the end of the silence of a writer's node.
func (s Strides) silent(ctx context.Context, writer int, began time.Time) error {
	if writer%s.Nodes != 0 {
		return nil
	}
	return backoff.Pause(ctx, time.Until(began.Add(s.Silence)))
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

func (s Segments) tables() []string { return []string{orders} }

func (s Segments) start() drawer {
	block := cmp.Or(s.Block, 5000)
	containers, sum, last := make([][]uint64, cmp.Or(s.Containers, 3)), 0.0, uint64(0)
	for i := range containers {
		sum += 1 / float64(i+1)
	}
	return func(d draw) (string, []uint64) {
		c := 0
		for at := d.rng.Float64() * sum; c < len(containers)-1; c++ {
			if at -= 1 / float64(c+1); at < 0 {
				break
			}
		}
		for len(containers[c]) < max(d.rows, block/10) {
			for range block {
				last++
				containers[c] = append(containers[c], last)
			}
		}
		ids := slices.Clone(containers[c][:d.rows])
		containers[c] = containers[c][d.rows:]
		return orders, ids
	}
}

// Ordered is the strictly ordered number issuer of 64 tables, orders_0 to orders_63: ids are drawn
// in order and committed out of order.
type Ordered struct{}

func (Ordered) tables() []string { return numbered(64) }

func (o Ordered) start() drawer {
	names, last := o.tables(), make(map[string]uint64)
	return func(d draw) (string, []uint64) {
		table := cmp.Or(d.table, names[d.rng.IntN(len(names))])
		ids := make([]uint64, d.rows)
		for i := range ids {
			last[table]++
			ids[i] = last[table]
		}
		return table, ids
	}
}
