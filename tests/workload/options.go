package workload

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
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
	IDs     IDs
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

func (h Hold) choose(rng *rand.Rand) time.Duration {
	bound := h.Short
	if rng.Float64() < h.LongShare {
		bound = h.Long
	}
	return time.Duration(rng.Float64() * float64(bound))
}

// IDs is where ids come from. The zero value leaves them to the database.
type IDs struct {
	// Tables is how many there are, orders_0 and on; 0 is the table orders alone.
	Tables int
	// Ordered is the strictly ordered number issuer of each table: ids are drawn in order and
	// committed out of order.
	Ordered bool
	// Nodes is how many nodes there are with a counter each, whose ids interleave, as with
	// auto_increment_increment on several primaries. A writer belongs to the node of its number
	// modulo Nodes. The first node writes nothing for Silence at the beginning: its ids are then
	// the lowest.
	Nodes   int
	Silence time.Duration
	// Containers are those of the buffered number issuer: each holds a block of ids in memory and
	// uses it up at its own pace, so that low ids are written long after higher ones. A writer
	// asks any container; the first one twice as often as the second, three times as often as the
	// third, and so on. Block is how many ids it fetches at once, when a tenth of them is left; it
	// defaults to 5,000.
	Containers, Block int
}

type draw struct {
	writer int
	rng    *rand.Rand
	// table is where the rows must go; empty where it does not matter.
	table string
	rows  int
}

const orders = "orders"

func (o IDs) tables() (names []string) {
	for i := range o.Tables {
		names = append(names, fmt.Sprintf("%s_%d", orders, i))
	}
	if names == nil {
		return []string{orders}
	}
	return names
}

// start returns what draws ids, for one caller at a time: the table and the ids of new rows; nil
// leaves the ids to the database.
func (o IDs) start() func(d draw) (table string, ids []uint64) {
	names, block, sum := o.tables(), cmp.Or(o.Block, 5000), 0.0
	containers, fetched := make([][]uint64, o.Containers), uint64(0)
	counters, ordered := make([]uint64, o.Nodes), make(map[string]uint64)
	for i := range containers {
		sum += 1 / float64(i+1)
	}
	return func(d draw) (string, []uint64) {
		table, ids := cmp.Or(d.table, names[d.rng.IntN(len(names))]), make([]uint64, d.rows)
		switch {
		case o.Containers > 0:
			c := 0
			for at := d.rng.Float64() * sum; c < len(containers)-1; c++ {
				if at -= 1 / float64(c+1); at < 0 {
					break
				}
			}
			for len(containers[c]) < max(d.rows, block/10) {
				for range block {
					fetched++
					containers[c] = append(containers[c], fetched)
				}
			}
			copy(ids, containers[c])
			containers[c] = containers[c][d.rows:]
		case o.Nodes > 0:
			node := d.writer % o.Nodes
			for i := range ids {
				ids[i] = counters[node]*uint64(o.Nodes) + uint64(node) + 1
				counters[node]++
			}
		case o.Ordered:
			for i := range ids {
				ordered[table]++
				ids[i] = ordered[table]
			}
		default:
			ids = nil
		}
		return table, ids
	}
}

func (o IDs) silent(ctx context.Context, writer int, began time.Time) error {
	if o.Silence == 0 || writer%o.Nodes != 0 {
		return nil
	}
	return backoff.Pause(ctx, time.Until(began.Add(o.Silence)))
}
