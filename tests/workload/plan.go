package workload

import (
	"math/rand/v2"
	"time"
)

// kind is what a transaction does.
type kind string

const (
	insert       kind = "insert"
	rollback     kind = "rollback"
	burn         kind = "burn"
	multiRow     kind = "multi-row"
	insertSelect kind = "insert-select"
	replace      kind = "replace"
	remove       kind = "delete"
)

// maxRows is the highest number of rows of one statement.
const maxRows = 8

// plan is one transaction before it runs.
type plan struct {
	kind kind
	// rows is how many rows it inserts.
	rows int
	hold time.Duration
	// pick chooses the entity of a REPLACE or DELETE among those that the writer has.
	pick uint64
}

// planner decides what a writer does, by its seed alone.
type planner struct {
	rng  *rand.Rand
	hold Hold
	mix  []share
}

func newPlanner(o Options, writer int) *planner {
	return &planner{rng: rand.New(rand.NewPCG(o.Seed, uint64(writer))), hold: o.Hold, mix: o.Mix.shares()}
}

func (p *planner) next() plan {
	// Every plan draws the same number of times: one more kind does not change the others' holds.
	which, rows, long, part := p.rng.Float64(), p.rng.IntN(maxRows-1), p.rng.Float64(), p.rng.Float64()
	plan := plan{kind: insert, rows: 1, pick: p.rng.Uint64()}
	for _, s := range p.mix {
		if which < s.of {
			plan.kind = s.kind
			break
		}
		which -= s.of
	}
	switch plan.kind {
	case multiRow, insertSelect:
		plan.rows = 2 + rows
	case remove:
		plan.rows = 0
	}
	bound := p.hold.Short
	if long < p.hold.LongShare {
		bound = p.hold.Long
	}
	plan.hold = time.Duration(part * float64(bound))
	return plan
}
