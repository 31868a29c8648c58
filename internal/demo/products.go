package demo

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
)

// products is the shop's catalogue.
type products struct {
	*Writers
	// listed are the SKUs that are for sale.
	listed []string
	// writes counts all writes, made the products.
	writes, made int
}

// productChange is what one write does to the catalogue.
type productChange int

const (
	listNew productChange = iota
	touch
	replace
	reprice
	discontinue
)

// firstChanges show everything in a short demo; laterChanges are drawn from at random.
var (
	firstChanges = []productChange{listNew, reprice, touch, reprice, replace, listNew, discontinue}
	laterChanges = []productChange{listNew, touch, touch, replace, reprice, reprice, discontinue}
	productNames = []string{"lamp", "chair", "desk", "kettle", "radio", "clock", "vase"}
)

// fewProducts is how many products stay: while most rows of a table are gone bridge publishes no
// deletes.
const fewProducts = 3

// write makes one change.
func (p *products) write(ctx context.Context) error {
	next := laterChanges[rand.IntN(len(laterChanges))]
	if p.writes < len(firstChanges) {
		next = firstChanges[p.writes]
	}
	p.writes++
	if next == listNew || len(p.listed) == 0 {
		p.made++
		sku := fmt.Sprintf("%s-%02d", productNames[rand.IntN(len(productNames))], p.made)
		p.listed = append(p.listed, sku)
		return p.replace(ctx, sku)
	}
	at := rand.IntN(len(p.listed))
	sku := p.listed[at]
	switch {
	case next == touch || next == discontinue && len(p.listed) < fewProducts && p.writes > len(firstChanges):
		return p.touch(ctx, sku)
	case next == replace:
		return p.replace(ctx, sku)
	case next == reprice:
		cents := price()
		return p.update(ctx, sku, money(cents), "price_cents = ?", cents)
	default:
		p.listed = append(p.listed[:at], p.listed[at+1:]...)
		return p.update(ctx, sku, deletedState, "deleted = ?", true)
	}
}

// touch moves the time of modification and nothing else.
func (p *products) touch(ctx context.Context, sku string) error {
	return p.transact(ctx, Products, func(tx *sql.Tx, c *change) error {
		c.touched = 1
		_, err := tx.ExecContext(ctx, "UPDATE products SET modified = ? WHERE sku = ?", now(), sku)
		return err
	})
}

// update sets a column of the product's row in place.
func (p *products) update(ctx context.Context, sku, text, assignment string, value any) error {
	return p.transact(ctx, Products, func(tx *sql.Tx, c *change) error {
		var id int64
		if err := tx.QueryRowContext(ctx, "SELECT id FROM products WHERE sku = ?", sku).Scan(&id); err != nil {
			return err
		}
		c.states = []state{{sku, id, text}}
		_, err := tx.ExecContext(ctx, "UPDATE products SET modified = ?, "+assignment+" WHERE id = ?", now(), value, id)
		return err
	})
}

// replace gives the product a new row under a new id.
func (p *products) replace(ctx context.Context, sku string) error {
	return p.transact(ctx, Products, func(tx *sql.Tx, c *change) error {
		cents, now := price(), now()
		id, err := put(ctx, tx, "REPLACE INTO products (sku, name, price_cents, created, modified) VALUES (?, ?, ?, ?, ?)",
			sku, sku[:len(sku)-3], cents, now, now)
		c.states = []state{{sku, id, money(cents)}}
		return err
	})
}

// price returns a price in cents; two in a row are hardly ever the same.
func price() int64 { return 100 + rand.Int64N(99_900) }

// money returns cents as people write an amount.
func money(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
