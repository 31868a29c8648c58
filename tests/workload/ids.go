package workload

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"example.org/bridge/client/backoff"
)

// IDs is where ids come from: AutoIncrement, Strides, Segments or Ordered.
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

func (Ordered) tables() (names []string) {
	for i := range 64 {
		names = append(names, fmt.Sprintf("%s_%d", orders, i))
	}
	return names
}

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
