package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bridge/examples/internal/stage"
)

// scan is a scanner of the classical kind: it looks for status = 1 in all tables, at an interval,
// and hands what it finds to its workers. A second one would do all of that again, unless somebody
// splits the tables between them.
func (s *shop) scan(every time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		for next := time.Now(); stage.Pause(ctx, time.Until(next)) == nil; next = next.Add(every) {
			for k := range tables {
				if err := s.scanTable(context.WithoutCancel(ctx), fmt.Sprintf("orders_%02d", k)); err != nil {
					return err
				}
			}
			// A scan that took longer is followed by the next one at once.
			if now := time.Now(); next.Before(now.Add(-every)) {
				next = now.Add(-every)
			}
		}
		return nil
	}
}

const scanLimit = 200

func (s *shop) scanTable(ctx context.Context, table string) error {
	type order struct {
		id      uint64
		orderNo string
	}
	for last := uint64(0); ; {
		s.Add("scans", 1)
		rows, err := s.DB.QueryContext(ctx, fmt.Sprintf("SELECT id, order_no FROM %s WHERE status = 1 AND id > ? ORDER BY id LIMIT %d", table, scanLimit), last)
		if err != nil {
			return fmt.Errorf("scan %s: %w", table, err)
		}
		var found []order
		for rows.Next() {
			var o order
			if err := rows.Scan(&o.id, &o.orderNo); err != nil {
				return errors.Join(err, rows.Close())
			}
			found = append(found, o)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		for _, o := range found {
			if err := s.process(ctx, table, o.id, o.orderNo); err != nil {
				return err
			}
			last = o.id
		}
		if len(found) < scanLimit {
			return nil
		}
	}
}
