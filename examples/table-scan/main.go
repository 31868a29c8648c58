// Command table-scan is workers that claim orders from the bus instead of scanning tables for
// status = 1. A worker that is gone leaves its orders to the others. See README.md.
//
//	make example-table-scan
package main

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"sync"

	"example.org/bridge/client"
	"example.org/bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() { stage.Main("table-scan", files, story) }

const tables, workers, orders = 4, 3, 40

type shop struct {
	*stage.Stage

	mu   sync.Mutex
	done map[string]int
}

// process claims an order and processes it. Only one worker moves its status from 1 to 2; an event
// that comes again moves nothing, and nothing is done.
//
// What an order needs belongs into the transaction of the UPDATE. What is done outside the database
// comes before it and must bear a repeat, as with any scanner. A worker that ends waits for the
// answer to its claim: without it no worker would know that it has processed the order.
func (s *shop) process(ctx context.Context, worker int, e client.Event) error {
	var order struct{ OrderNo string }
	if err := e.Decode(&order); err != nil {
		return err
	}
	result, err := s.DB.ExecContext(context.WithoutCancel(ctx), "UPDATE "+e.Shard+" SET status = 2 WHERE id = ? AND status = 1", e.RowID)
	if err != nil {
		return fmt.Errorf("claim order %s: %w", order.OrderNo, err)
	}
	if moved, err := result.RowsAffected(); err != nil || moved == 0 {
		return err
	}
	s.Say("worker %d processes %s of %s", worker, order.OrderNo, e.Shard)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[order.OrderNo]++
	return nil
}

func (s *shop) await(ctx context.Context, orders int) error {
	return s.Wait(ctx, fmt.Sprintf("%d orders that are processed", orders), func() (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for orderNo, times := range s.done {
			if times > 1 {
				return false, fmt.Errorf("order %s was processed %d times", orderNo, times)
			}
		}
		return len(s.done) >= orders, nil
	})
}

func story(ctx context.Context, s *stage.Stage) error {
	shop := &shop{Stage: s, done: make(map[string]int)}
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	for worker := range workers {
		until := ctx
		if worker == 0 {
			until = leaving
		}
		// The workers are a group: the bus splits the events among them.
		if err := s.Listen(until, "workers", s.Options("orders"), func(ctx context.Context, e client.Event) error {
			return shop.process(ctx, worker, e)
		}); err != nil {
			return err
		}
	}
	for n := range orders {
		// An order lies in the table of the hash of its number.
		orderNo := fmt.Sprintf("order-%02d", n)
		h := fnv.New32a()
		h.Write([]byte(orderNo))
		if _, err := s.DB.ExecContext(ctx, fmt.Sprintf("INSERT INTO orders_%d (order_no) VALUES (?)", h.Sum32()%tables), orderNo); err != nil {
			return err
		}
		if n == orders/2 {
			// Some of the orders are processed by now.
			if err := shop.await(ctx, orders/4); err != nil {
				return err
			}
			leave()
			s.Say("worker 0 is gone; the others go on with its orders")
		}
	}
	if err := shop.await(ctx, orders); err != nil {
		return err
	}
	s.Say("%d orders in %d tables, each processed once", orders, tables)
	return nil
}
