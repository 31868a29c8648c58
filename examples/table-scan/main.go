package main

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"time"

	"bridge/client"
	"bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() {
	stage.Main(stage.Example{Name: "table-scan", Files: files, Tables: allTables, Story: story})
}

const (
	workers = 4
	// idleFor is how long each part begins without orders, playFor how long it then has one every
	// orderEvery.
	idleFor    = 2 * time.Second
	playFor    = 4 * time.Second
	orderEvery = 50 * time.Millisecond
)

// story plays the same load three times: with workers behind the bus, with one scanner, and with a
// scanner in each worker.
func story(ctx context.Context, s *stage.Stage) error {
	shop := newShop(s)
	byBus, err := shop.behindTheBus(ctx)
	if err != nil {
		return err
	}
	byOne, err := shop.byScanning(ctx, 1, 2*byBus.median)
	if err != nil {
		return err
	}
	byAll, err := shop.byScanning(ctx, workers, 2*byBus.median)
	if err != nil {
		return err
	}
	left, err := shop.unprocessed(ctx)
	if err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d rows still have status 1", left)
	}
	fmt.Printf("\n%-32s %7s %13s %13s %13s\n", "", "orders", "median delay", "reads/s, idle", "reads/s, busy")
	for _, p := range []part{byBus, byOne, byAll} {
		fmt.Printf("%-32s %7d %10d ms %13.0f %13.0f\n", p.name, p.orders, p.median.Milliseconds(), p.idle, p.busy)
	}
	fmt.Println()
	s.Conclude("%d orders in %d tables, each processed once", byBus.orders+byOne.orders+byAll.orders, tables)
	return nil
}

// part is what one part of the story has measured.
type part struct {
	name   string
	orders int
	median time.Duration
	// idle and busy are reads of order tables a second.
	idle, busy float64
}

// behindTheBus has workers consume the events of new orders, as processes of one group. One of
// them dies halfway.
func (s *shop) behindTheBus(ctx context.Context) (part, error) {
	if err := s.Bridge.Start(ctx); err != nil {
		return part{}, err
	}
	var working []*stage.Task
	for range workers {
		events, err := client.NewEvents(s.Bus, s.Name("workers"), s.Options("orders"), s.work)
		if err != nil {
			return part{}, err
		}
		working = append(working, s.Begin(ctx, events.Run))
	}
	if err := s.Wait(ctx, "a first poll of all tables", func(ctx context.Context) (bool, error) {
		shards, err := s.Bridge.Shards(ctx, "orders")
		return !slices.ContainsFunc(shards, func(shard stage.Shard) bool { return shard.State != "running" }), err
	}); err != nil {
		return part{}, err
	}
	// The start itself is not to be measured.
	if err := stage.Pause(ctx, idleFor); err != nil {
		return part{}, err
	}
	s.Say("%d workers claim orders from the bus, an order every %s", workers, orderEvery)
	p, err := s.measure(ctx, "bus", true, func() {
		working[0].End()
		s.Say("one worker is gone; the others go on with its orders")
	})
	if err != nil {
		return part{}, err
	}
	for _, w := range working {
		w.End()
	}
	s.Say("%d orders processed; %d events came again and did nothing", p.orders, s.Of("repeats"))
	p.name = fmt.Sprintf("bridge, with %d workers", workers)
	return p, s.Bridge.Stop()
}

// work is what a worker does with an event.
func (s *shop) work(ctx context.Context, e client.Event) error {
	var order struct{ OrderNo string }
	if err := e.Decode(&order); err != nil {
		return err
	}
	return s.process(ctx, e.Shard, e.RowID, order.OrderNo)
}

// byScanning has scanners look for orders so often that their median is that of the bus.
func (s *shop) byScanning(ctx context.Context, scanners int, every time.Duration) (part, error) {
	s.Say("bridge is stopped; %s reads the %d tables every %s", counted(scanners), tables, every.Round(time.Millisecond))
	var scanning []*stage.Task
	for range scanners {
		scanning = append(scanning, s.Begin(ctx, s.scan(every)))
	}
	p, err := s.measure(ctx, fmt.Sprintf("scan-%d", scanners), false, func() {})
	for _, task := range scanning {
		task.End()
	}
	p.name = counted(scanners)
	return p, err
}

func counted(scanners int) string {
	if scanners == 1 {
		return "one scanner"
	}
	return fmt.Sprintf("a scanner in each of %d workers", scanners)
}

// measure counts reads while no order comes for a while, and then while orders with a prefix do,
// until all are processed.
func (s *shop) measure(ctx context.Context, prefix string, bridge bool, halfway func()) (p part, err error) {
	p.idle, err = s.rate(ctx, bridge, func() error { return stage.Pause(ctx, idleFor) })
	if err != nil {
		return part{}, err
	}
	p.busy, err = s.rate(ctx, bridge, func() error {
		inserting := s.Begin(ctx, s.insert(prefix, orderEvery))
		if err := stage.Pause(ctx, playFor/2); err != nil {
			return err
		}
		halfway()
		if err := stage.Pause(ctx, playFor/2); err != nil {
			return err
		}
		inserting.End()
		err := s.Wait(ctx, "an end of all orders", func(context.Context) (bool, error) {
			waiting, err := s.waiting()
			return len(waiting) == 0, err
		})
		if err != nil {
			return s.explain(ctx, err)
		}
		return nil
	})
	p.orders, p.median = s.median(prefix)
	return p, err
}

// rate returns how many reads a second there are while do runs.
func (s *shop) rate(ctx context.Context, bridge bool, do func() error) (float64, error) {
	before, err := s.reads(ctx, bridge)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	after, err := s.reads(ctx, bridge)
	return float64(after-before) / time.Since(begun).Seconds(), err
}
