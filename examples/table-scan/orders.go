package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"bridge/examples/internal/stage"
)

const tables = 64

// shop is the orders, as their writers and workers see them.
type shop struct {
	*stage.Stage
	// Tally counts statements.
	stage.Tally

	mu sync.Mutex
	// inserted is when each order was inserted, done how long after that it was processed, and how
	// often.
	inserted map[string]time.Time
	done     map[string][]time.Duration
}

func newShop(s *stage.Stage) *shop {
	return &shop{Stage: s, inserted: make(map[string]time.Time), done: make(map[string][]time.Duration)}
}

// table returns the table of an order by the hash of its number.
func table(orderNo string) string {
	h := fnv.New32a()
	h.Write([]byte(orderNo))
	return fmt.Sprintf("orders_%02d", h.Sum32()%tables)
}

// allTables repeats the statements of the first table for the others.
func allTables(sql string) string {
	var all strings.Builder
	for k := range tables {
		all.WriteString(strings.ReplaceAll(sql, "_00", fmt.Sprintf("_%02d", k)))
	}
	return all.String()
}

// insert inserts orders, one a pause, until ctx ends.
func (s *shop) insert(prefix string, pause time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		for n := 0; stage.Pause(ctx, pause) == nil; n++ {
			orderNo := fmt.Sprintf("%s-%04d", prefix, n)
			s.mu.Lock()
			s.inserted[orderNo] = time.Now()
			s.mu.Unlock()
			s.Add("inserts", 1)
			if _, err := s.DB.ExecContext(context.WithoutCancel(ctx), "INSERT INTO "+table(orderNo)+" (order_no) VALUES (?)", orderNo); err != nil {
				return fmt.Errorf("insert order %s: %w", orderNo, err)
			}
		}
		return nil
	}
}

// process claims an order and processes it. Only one worker moves its status from 1 to 2; an event
// that comes again moves nothing, and nothing is done.
//
// What an order needs belongs into the transaction of the UPDATE. What is done outside the database
// comes before it and must bear a repeat, as with any scanner. A worker that ends waits for the
// answer to its claim: without it no worker would know that it has processed the order.
func (s *shop) process(ctx context.Context, table string, id uint64, orderNo string) error {
	s.Add("claims", 1)
	result, err := s.DB.ExecContext(context.WithoutCancel(ctx), "UPDATE "+table+" SET status = 2 WHERE id = ? AND status = 1", id)
	if err != nil {
		return fmt.Errorf("claim order %s: %w", orderNo, err)
	}
	if moved, err := result.RowsAffected(); err != nil || moved == 0 {
		s.Add("repeats", 1)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[orderNo] = append(s.done[orderNo], time.Since(s.inserted[orderNo]))
	return nil
}

// waiting returns the orders that are not processed, and an error if one was twice.
func (s *shop) waiting() (orders []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for orderNo := range s.inserted {
		switch len(s.done[orderNo]) {
		case 0:
			orders = append(orders, orderNo)
		case 1:
		default:
			return nil, fmt.Errorf("order %s was processed %d times", orderNo, len(s.done[orderNo]))
		}
	}
	return orders, nil
}

// explain adds to an error which of the orders that are waiting has waited longest, and its status.
func (s *shop) explain(ctx context.Context, failed error) error {
	orders, err := s.waiting()
	if err != nil || len(orders) == 0 {
		return failed
	}
	first := slices.Min(orders)
	status := "is unknown"
	var n int
	if err := s.DB.QueryRowContext(ctx, "SELECT status FROM "+table(first)+" WHERE order_no = ?", first).Scan(&n); err == nil {
		status = fmt.Sprintf("is %d", n)
	}
	return fmt.Errorf("%w: %d orders are not processed, first %s in %s, whose status %s", failed, len(orders), first, table(first), status)
}

// median returns how many orders with a prefix there are, and the median of their delays.
func (s *shop) median(prefix string) (orders int, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []time.Duration
	for orderNo, delays := range s.done {
		if strings.HasPrefix(orderNo, prefix) {
			all = append(all, delays...)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return len(all), all[len(all)/2]
}

// reads returns how many statements the database has had that read orders: of bridge, while that
// runs, and of the scanner. A server counts for itself; nobody else should use it meanwhile.
func (s *shop) reads(ctx context.Context, bridge bool) (n int, err error) {
	switch {
	case s.MySQL:
		var name string
		err := s.DB.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
		return n - s.Of("inserts") - s.Of("claims"), err
	case bridge:
		return s.Bridge.Reads(ctx)
	default:
		return s.Of("scans"), nil
	}
}

// unprocessed counts the rows of all tables whose status is not 2.
func (s *shop) unprocessed(ctx context.Context) (all int, err error) {
	for k := range tables {
		var n int
		if err := s.DB.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM orders_%02d WHERE status <> 2", k)).Scan(&n); err != nil {
			return 0, err
		}
		all += n
	}
	return all, nil
}
