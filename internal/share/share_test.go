package share_test

import (
	"fmt"
	"testing"

	"example.org/bridge/internal/share"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]share.Share{"0/1": {0, 1}, "3/8": {3, 8}, "999/1000": {999, 1000}, "2-of-3": {2, 3}} {
		if s, err := share.Parse(text); s != want || err != nil {
			t.Errorf("%s is %v: %v", text, s, err)
		}
	}
	for _, text := range []string{"", "3", "8/8", "9/8", "0/0", "-1/8", "0/1001", "1/2/3", " 1/2", "1/2 ", "a/b", "+1/2", "00000/1"} {
		if s, err := share.Parse(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
}

// TestPlacement: each table is in one share, by a function that stays as it is, and the shares of
// names that differ in a number or two have about as many tables.
func TestPlacement(t *testing.T) {
	t.Parallel()
	for table, want := range map[string]int{"": 1, "t": 7, "shop_07.orders_07": 2, "a/shop.orders": 0} {
		if got := share.Of(8, "orders", table); got != want {
			t.Errorf("%q is in share %d, was in %d", table, got, want)
		}
	}
	const number = 8
	tables := make([]int, number)
	for database := range 100 {
		for table := range 10 {
			name, owners := fmt.Sprintf("shop_%02d.orders_%d", database, table), 0
			for i := range number {
				if (share.Share{Index: i, Number: number}).Has("orders", name) {
					owners++
					tables[i]++
				}
			}
			if owners != 1 || !(share.Share{}).Has("orders", name) {
				t.Fatalf("%s has %d owners", name, owners)
			}
		}
	}
	for i, n := range tables {
		if n < 95 || n > 155 {
			t.Errorf("share %d has %d of 1,000 tables", i, n)
		}
	}
}
