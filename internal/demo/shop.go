package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // the shop's driver
)

// The tables. The streams that tail them have the same names.
const (
	Products = "products"
	Stock    = "stock"
	Orders   = "orders"
)

// Tables are all tables of the shop that bridge reads.
var Tables = []string{Products, Stock, Orders}

const schema = `
CREATE TABLE products (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	sku TEXT NOT NULL UNIQUE,
	price_cents INTEGER NOT NULL,
	deleted BOOLEAN NOT NULL DEFAULT 0,
	created DATETIME NOT NULL,
	modified DATETIME NOT NULL
);
CREATE INDEX products_modified ON products (modified);
CREATE TABLE stock (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	warehouse TEXT NOT NULL,
	sku TEXT NOT NULL,
	quantity INTEGER NOT NULL,
	created DATETIME NOT NULL,
	UNIQUE (warehouse, sku)
);
CREATE TABLE orders (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	customer TEXT NOT NULL,
	total_cents INTEGER NOT NULL,
	created DATETIME NOT NULL
);
CREATE TABLE order_ids (next INTEGER NOT NULL);
INSERT INTO order_ids VALUES (1);`

// OpenDatabase makes the shop's database in the file at path, in WAL mode, and returns a pool whose
// transactions take the write lock at once and wait for it.
func OpenDatabase(ctx context.Context, path string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: "_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		// The first error is the one to report.
		_ = db.Close()
		return nil, fmt.Errorf("create the tables in %s: %w", path, err)
	}
	return db, nil
}

type row struct {
	table string
	id    int64
}

type shop struct {
	db *sql.DB

	mu sync.Mutex
	// committed is when each row was written last; writes counts all.
	committed map[row]time.Time
	writes    int
}

// run returns nil when ctx ends, after orders that are being paid are inserted.
func (s *shop) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	// loop calls write until ctx ends, with pauses of pause on average.
	loop := func(pause time.Duration, write func(context.Context) error) {
		group.Go(func() error {
			for sleep(ctx, pause/2+rand.N(pause)) {
				// A statement is short, and its outcome must be known.
				if err := write(context.WithoutCancel(ctx)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	loop(500*time.Millisecond, s.products())
	loop(400*time.Millisecond, s.stock)
	loop(700*time.Millisecond, func(ctx context.Context) error { return s.order(ctx, func() {}) })
	// A slow payment: orders with higher ids are committed meanwhile.
	loop(time.Second, func(now context.Context) error { return s.order(now, func() { sleep(ctx, 3*time.Second) }) })
	return group.Wait()
}

// sleep waits for d and reports false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// write runs a statement that changes one row and notes when: who sees its event finds the time.
// The error is sql.ErrNoRows where there is no such row.
func (s *shop) write(ctx context.Context, table, statement string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, id := time.Now(), int64(0)
	if err := s.db.QueryRowContext(ctx, statement+" RETURNING id", args...).Scan(&id); err != nil {
		return fmt.Errorf("write to %s: %w", table, err)
	}
	if s.committed == nil {
		s.committed = make(map[row]time.Time)
	}
	s.committed[row{table, id}] = at
	s.writes++
	return nil
}

func (s *shop) when(r row) (at time.Time, written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, written = s.committed[r]
	return at, written
}

// products returns a function that makes one change to the catalogue: in turns a new product, a new
// price in place, a row under a new id, and a product that is deleted by a column.
func (s *shop) products() func(context.Context) error {
	var listed []string
	made, turn := 0, -1
	replace := func(ctx context.Context, sku string) error {
		return s.write(ctx, Products, "REPLACE INTO products (sku, price_cents, created, modified) VALUES (?, ?, ?, ?)", sku, price(), now(), now())
	}
	return func(ctx context.Context) error {
		turn++
		switch turn % 7 {
		case 0, 2, 4:
			made++
			sku := fmt.Sprintf("%s-%02d", goods[rand.IntN(len(goods))], made)
			listed = append(listed, sku)
			return replace(ctx, sku)
		case 1, 3:
			return s.write(ctx, Products, "UPDATE products SET price_cents = ?, modified = ? WHERE sku = ?", price(), now(), listed[rand.IntN(len(listed))])
		case 5:
			return replace(ctx, listed[rand.IntN(len(listed))])
		}
		sku := listed[0]
		listed = listed[1:]
		return s.write(ctx, Products, "UPDATE products SET deleted = 1, modified = ? WHERE sku = ?", now(), sku)
	}
}

// stock counts one item of one warehouse: its row is deleted, updated in place or replaced. A table
// of a few rows keeps them, as bridge publishes no deletes where most of a table is gone.
func (s *shop) stock(ctx context.Context) error {
	warehouse, sku, quantity := warehouses[rand.IntN(len(warehouses))], goods[rand.IntN(len(goods))], 1+rand.IntN(5000)
	err := sql.ErrNoRows
	switch rand.IntN(10) {
	case 0:
		err = s.write(ctx, Stock, "DELETE FROM stock WHERE warehouse = ? AND sku = ? AND (SELECT COUNT(*) FROM stock) >= 8", warehouse, sku)
	case 1, 2:
		err = s.write(ctx, Stock, "UPDATE stock SET quantity = ? WHERE warehouse = ? AND sku = ?", quantity, warehouse, sku)
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = s.write(ctx, Stock, "REPLACE INTO stock (warehouse, sku, quantity, created) VALUES (?, ?, ?, ?)", warehouse, sku, quantity, now())
	}
	return err
}

func (s *shop) order(ctx context.Context, pay func()) error {
	var id int64
	if err := s.db.QueryRowContext(ctx, "UPDATE order_ids SET next = next + 1 RETURNING next - 1").Scan(&id); err != nil {
		return fmt.Errorf("draw the id of an order: %w", err)
	}
	pay()
	return s.write(ctx, Orders, "INSERT INTO orders VALUES (?, ?, ?, ?)", id, customers[rand.IntN(len(customers))], price(), now())
}

var (
	goods      = []string{"lamp", "chair", "desk", "kettle", "radio"}
	warehouses = []string{"east", "north", "west"}
	customers  = []string{"ada", "grace", "edsger", "barbara", "donald", "frances"}
)

// price returns a price in cents; two in a row are hardly ever the same.
func price() int64 { return 100 + rand.Int64N(99_900) }

func now() string { return time.Now().UTC().Format("2006-01-02 15:04:05.000000") }
