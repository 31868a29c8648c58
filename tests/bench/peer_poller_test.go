package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// poller is the control: what everybody writes first. It loses each row that is committed behind a
// higher one, and shows so that the test of late rows can fail.
type poller struct{ arrivals *arrivals }

// startPoller polls a table every 100 ms until stop is called.
func startPoller(t testing.TB, db *database, table string) (p *poller, stop func()) {
	p = &poller{newArrivals()}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		last := uint64(0)
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			rows, err := db.db.QueryContext(ctx, fmt.Sprintf("SELECT id FROM %s WHERE id > ? ORDER BY id", table), last)
			for err == nil && rows.Next() {
				if err = rows.Scan(&last); err == nil {
					p.arrivals.add(arrival{row: last, at: time.Now()})
				}
			}
			if err == nil {
				err = rows.Err()
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("the poller: %v", err)
				return
			}
		}
	})
	return p, func() { cancel(); done.Wait() }
}
