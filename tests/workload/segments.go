package workload

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// Segments is the buffered number issuer: each container holds a block of ids in memory and uses it
// up at its own pace, so that low ids are written long after higher ones. A writer asks any
// container, the fast ones more often.
type Segments struct {
	// Containers is how many there are. Defaults to 3.
	Containers int
	// Block is how many ids a container fetches at once. Defaults to 5,000.
	Block int
	// Critical is how many ids a container has left when it fetches the next block. Defaults to a
	// tenth of Block.
	Critical int
	// Speeds are the containers' relative paces. Default to 1, 1/2, 1/3 and so on.
	Speeds []float64
}

func (s Segments) issuer(o Options) (issuer, error) {
	s.Containers = cmp.Or(s.Containers, 3)
	s.Block = cmp.Or(s.Block, 5000)
	s.Critical = cmp.Or(s.Critical, s.Block/10)
	if s.Speeds == nil {
		for i := range s.Containers {
			s.Speeds = append(s.Speeds, 1/float64(i+1))
		}
	}
	if s.Containers < 0 || s.Block < maxRows || len(s.Speeds) != s.Containers || slices.Min(s.Speeds) <= 0 {
		return nil, fmt.Errorf("segments %+v: want containers with a speed above 0 each, and blocks of at least %d ids", s, maxRows)
	}
	return &segments{
		oneTable: oneTable{o}, Segments: s, containers: make([]container, s.Containers),
		blocks: counters{opts: o, table: o.Table + "_segments"},
	}, nil
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
	for len(c.ids) < max(d.rows, s.Critical) {
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
	for _, speed := range s.Speeds {
		sum += speed
	}
	at := rng.Float64() * sum
	for i, speed := range s.Speeds {
		if at -= speed; at < 0 {
			return i
		}
	}
	return len(s.Speeds) - 1
}
