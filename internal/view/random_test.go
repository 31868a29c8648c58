package view

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"bridge/tests/testall"
)

// step does one thing at random.
func (w *toyWorld) step(ctx context.Context, nested bool) {
	o := w.owners[w.rng.IntN(len(w.owners))]
	switch n := w.rng.IntN(24); {
	case n < 4:
		w.write()
	case n < 8:
		o.readPage()
	case n < 12 && !nested:
		o.decide(ctx)
	case n < 15:
		w.deliverOne()
	case n < 18:
		o.acknowledge(ctx)
	case n == 18:
		if w.rng.IntN(3) == 0 {
			o.cancel()
		}
	case n < 21:
		w.readOn(ctx, w.rng.IntN(len(w.bus)))
	case n == 21:
		w.notice()
	case !nested:
		w.pass(ctx)
	}
}

// deliverOne delivers a batch, the first one of its shard.
func (w *toyWorld) deliverOne() {
	if len(w.net) == 0 {
		return
	}
	b := w.net[w.rng.IntN(len(w.net))]
	for _, o := range w.owners {
		if i := slices.Index(o.flying, b); i > 0 && !o.flying[i-1].arrived {
			return
		}
	}
	w.deliver(b)
}

func (w *toyWorld) pass(ctx context.Context) {
	if _, err := w.movers.Pass(ctx); err != nil {
		w.fault("%v", err)
	}
}

// idle does all that is left to do.
func (w *toyWorld) idle(ctx context.Context) {
	for left, rounds := 40, 0; left > 0 && rounds < 10_000; rounds++ {
		if left--; w.movers.Waiting() > 0 {
			left = 40
		}
		for _, o := range w.owners {
			o.readPage()
			o.decide(ctx)
			for len(w.net) > 0 {
				w.deliver(w.net[0])
			}
			o.acknowledge(ctx)
			if len(o.notices) > 0 {
				left = 40
			}
		}
		for tp := range w.bus {
			w.readOn(ctx, tp)
		}
		w.notice()
		w.now = w.now.Add(time.Minute)
		w.pass(ctx)
	}
}

// life is one random life of a world. It returns what does not hold.
func life(seed uint64) (faults []string) {
	ctx := context.Background()
	w := newToyWorld(seed)
	w.movers.opts.Now = func() time.Time { return w.now }
	w.between = func() {
		for range w.rng.IntN(3) {
			w.step(ctx, true)
		}
	}
	for range 40 + int(seed%160) {
		w.now = w.now.Add(time.Millisecond)
		if w.step(ctx, false); len(w.faults) > 0 {
			return w.faults
		}
	}
	w.between = nil
	w.idle(ctx)
	w.compare()
	return w.faults
}

func TestTheBusEndsAsTheTables(t *testing.T) {
	for seed := range uint64(testall.Cases(1500, 40_000)) {
		if faults := life(seed); len(faults) > 0 {
			t.Fatalf("seed %d: %v", seed, faults)
		}
	}
}

// TestShardsSideBySide runs owners, publishers, a reader and Movers as goroutines.
func TestShardsSideBySide(t *testing.T) {
	for seed := range uint64(testall.Pick(4, 40)) {
		w := newToyWorld(seed)
		w.keys = 40
		ctx, cancel := context.WithCancel(t.Context())
		var writers, all sync.WaitGroup
		all.Go(func() { _ = w.movers.Run(ctx, func(err error) { t.Error(err) }) })
		for i, o := range w.owners {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			writers.Go(func() {
				for i := range 2000 {
					if i%4 == 0 {
						w.write()
					}
					if o.readPage() {
						o.decide(ctx)
					}
					w.send(o)
					if rng.IntN(40) == 0 {
						o.cancel()
					}
					o.acknowledge(ctx)
					w.notice()
				}
			})
		}
		all.Go(func() {
			for ctx.Err() == nil {
				// A read that has begun ends, as the messages of an error are read again.
				for tp := range w.bus {
					w.readOn(context.Background(), tp)
				}
			}
		})
		writers.Wait()
		cancel()
		all.Wait()
		w.movers.opts.Now = func() time.Time { return w.now }
		w.now = time.Now()
		w.idle(context.Background())
		w.compare()
		if len(w.faults) > 0 {
			t.Fatalf("seed %d: %v", seed, w.faults)
		}
	}
}

// send delivers the batches of a shard.
func (w *toyWorld) send(o *toyOwner) {
	w.mu.Lock()
	var list []*toyBatch
	for _, b := range o.flying {
		if slices.Contains(w.net, b) {
			list = append(list, b)
		}
	}
	w.mu.Unlock()
	for _, b := range list {
		w.deliver(b)
	}
}
