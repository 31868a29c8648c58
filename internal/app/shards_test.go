package app

import "testing"

func TestLedgersStayBelow64MiB(t *testing.T) {
	for _, shards := range []int{0, 1, 2, 3, 100, 128, 129, 500, 1024} {
		one := ledgerBytes(shards)
		if sum := one * shards; one < leastLedgerBytes || one > mostLedgerBytes || sum > 64<<20 || shards <= 128 && sum > ledgersBytes {
			t.Errorf("%d shards: %d bytes each, %d in all", shards, one, sum)
		}
	}
}
