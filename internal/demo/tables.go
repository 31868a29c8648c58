package demo

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

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
	name TEXT NOT NULL,
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
