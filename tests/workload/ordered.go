package workload

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Ordered is the strictly ordered number issuer: every id is drawn by a compare-and-set in the
// database, from a counter for each of 64 tables, which the hash of a sub-business names: Table_0
// to Table_63. Ids are drawn in order and committed out of order.
type Ordered struct {
	// Subs is how many sub-businesses there are. Defaults to 100.
	Subs int
}

// orderedTables is how many tables the hash spreads over.
const orderedTables = 64

func (s Ordered) issuer(o Options) (issuer, error) {
	s.Subs = cmp.Or(s.Subs, 100)
	if s.Subs < 0 {
		return nil, fmt.Errorf("%d sub-businesses: want at least 1", s.Subs)
	}
	return &ordered{opts: o, Ordered: s, counters: counters{opts: o, table: o.Table + "_counters"}}, nil
}

type ordered struct {
	Ordered
	opts     Options
	counters counters
}

func (s *ordered) tables() []string {
	tables := make([]string, orderedTables)
	for i := range tables {
		tables[i] = fmt.Sprintf("%s_%d", s.opts.Table, i)
	}
	return tables
}

func (s *ordered) create(ctx context.Context) error { return s.counters.create(ctx, s.tables()) }

func (s *ordered) start(time.Time) {}

func (s *ordered) draw(ctx context.Context, d draw) (string, []uint64, error) {
	sub, table := fmt.Sprintf("sub-%d", d.rng.IntN(s.Subs)), d.table
	table = cmp.Or(table, fmt.Sprintf("%s_%d", s.opts.Table, spread(sub)))
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

// spread names the table of a sub-business: Java's hash of a string, without its sign, modulo the
// tables.
func spread(sub string) int {
	hash := int32(0)
	for _, c := range []byte(sub) {
		hash = 31*hash + int32(c)
	}
	if hash < 0 {
		hash = -hash
	}
	return int(hash % orderedTables)
}
