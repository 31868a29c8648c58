package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"bridge/examples/internal/stage"
)

// bufferSize is how many numbers a batch has, lowestCriticalValue how few of them may be left
// before the next batch is fetched. Upstream has 5000 and 500.
const bufferSize, lowestCriticalValue = 100, 10

// buffered is the issuer "unordered" in one container: it holds batches of numbers in memory.
type buffered struct {
	*stage.Stage
	business string
	buffer   []uint64
}

// next returns the next number. They ascend within a batch, and the batches of containers
// interleave.
func (b *buffered) next(ctx context.Context) (uint64, error) {
	if len(b.buffer) <= lowestCriticalValue {
		// Upstream does this in a thread of its own, so that nobody waits.
		version, err := b.batch(ctx)
		if err != nil {
			return 0, fmt.Errorf("fetch a batch for %s: %w", b.business, err)
		}
		for n := range uint64(bufferSize) {
			b.buffer = append(b.buffer, version*bufferSize+n+1)
		}
	}
	id := b.buffer[0]
	b.buffer = b.buffer[1:]
	return id, nil
}

// batch claims the next batch by compare-and-set, again and again while others are faster.
func (b *buffered) batch(ctx context.Context) (version uint64, err error) {
	for {
		err := b.DB.QueryRowContext(ctx, "SELECT version FROM ng_business_mysql_autoincrement WHERE business = ?", b.business).Scan(&version)
		if err != nil {
			return 0, err
		}
		moved, err := changed(b.DB.ExecContext(ctx, "UPDATE ng_business_mysql_autoincrement SET version = ? WHERE business = ? AND version = ?", version+1, b.business, version))
		if moved || err != nil {
			return version, err
		}
	}
}

// ordered is the issuer "slow, ordered": each number is a compare-and-set in the table of its hash.
type ordered struct{ *stage.Stage }

// next returns the next number of a sub-business, and the table that its rows are in.
func (o *ordered) next(ctx context.Context, subBusiness string) (id uint64, table string, err error) {
	k := hash(subBusiness) % counterTables
	counter := fmt.Sprintf("ng_business_slowordered_%d", k)
	for {
		err := o.DB.QueryRowContext(ctx, "SELECT num FROM "+counter+" WHERE sub_business = ?", subBusiness).Scan(&id)
		if err != nil {
			return 0, "", fmt.Errorf("draw a number for %s: %w", subBusiness, err)
		}
		moved, err := changed(o.DB.ExecContext(ctx, "UPDATE "+counter+" SET num = ? WHERE sub_business = ? AND num = ?", id+1, subBusiness, id))
		if moved || err != nil {
			return id + 1, fmt.Sprintf("im_message_%d", k), err
		}
	}
}

// hash is that of upstream's getTableName, which is Java's of a string.
func hash(s string) int {
	h := int32(0)
	for _, c := range s {
		h = 31*h + c
	}
	return int(max(h, -h))
}

func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// register makes the counters of a business and of sub-businesses.
func register(ctx context.Context, db *sql.DB, business string, subBusinesses []string) error {
	_, err := db.ExecContext(ctx, "INSERT INTO ng_business_mysql_autoincrement (business, version) VALUES (?, 0)", business)
	for _, sub := range subBusinesses {
		_, failed := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO ng_business_slowordered_%d (sub_business, num) VALUES (?, 0)", hash(sub)%counterTables), sub)
		err = errors.Join(err, failed)
	}
	return err
}
